#include "kernels/optim.hpp"

#include "kernels/simd/for_each_vector.hpp"

namespace fit::kernels {
namespace {

// Calls update(p, g, state) on the vectors of all arrays, one after the other, and stores what may have changed. Bit k
// of `states`: there is a state k.
template <unsigned states, class T, class Update>
void each(const StepArrays<T>& on, std::int64_t n, const Update& update) {
  using V = Vec<T>;
  for_each_vector<V>(n, [&](std::int64_t i, auto at, int) {
    V p = at.template load<V>(on.parameter + i, T(0)), s[StepArrays<T>::max_states];
    for (int k = 0; k < StepArrays<T>::max_states; ++k)
      if (states >> k & 1) s[k] = at.template load<V>(on.state[k] + i, T(0));
    update(p, at.template load<V>(on.gradient + i, T(0)), s);
    at.store(p, on.parameter + i);
    for (int k = 0; k < StepArrays<T>::max_states; ++k)
      if (states >> k & 1) at.store(s[k], on.state[k] + i);
  });
}

template <class T>
Vec<T> splat(double v) {
  return Vec<T>(static_cast<T>(v));
}

template <class T>
void sgd(const SgdStep& step, const StepArrays<T>& on, std::int64_t n) {
  using V = Vec<T>;
  const V lr = splat<T>(step.lr), momentum = splat<T>(step.momentum), keep = splat<T>(step.keep),
          decay = splat<T>(step.decay);
  const bool decays = step.decay != 0, nesterov = step.nesterov, first = step.first;
  if (on.state[0])
    each<1>(on, n, [=](V& p, V g, V* s) {
      if (decays) g = g + decay * p;
      s[0] = first ? g : momentum * s[0] + keep * g;
      p = p - lr * (nesterov ? g + momentum * s[0] : s[0]);
    });
  else
    each<0>(on, n, [=](V& p, V g, V*) { p = p - lr * (decays ? g + decay * p : g); });
}

template <bool amsgrad, class T>
void adam_with(const AdamStep& step, const StepArrays<T>& on, std::int64_t n) {
  using V = Vec<T>;
  const V rate = splat<T>(step.rate), root = splat<T>(step.root), beta2 = splat<T>(step.beta2),
          keep1 = splat<T>(step.keep1), keep2 = splat<T>(step.keep2), eps = splat<T>(step.eps),
          decay = splat<T>(step.decay), shrink = splat<T>(step.shrink), ahead = splat<T>(step.ahead);
  const bool decays = step.decay != 0;
  each<amsgrad ? 7 : 3>(on, n, [=](V& p, V g, V* s) {
    p = p * shrink;
    if (decays) g = g + decay * p;
    s[0] = s[0] + keep1 * (g - s[0]);
    s[1] = beta2 * s[1] + keep2 * (g * g);
    if (amsgrad) s[2] = xsimd::max(s[2], s[1]);
    p = p - (rate * s[0] + ahead * g) / (xsimd::sqrt(s[amsgrad ? 2 : 1]) / root + eps);
  });
}

template <class T>
void adam(const AdamStep& step, const StepArrays<T>& on, std::int64_t n) {
  on.state[2] ? adam_with<true>(step, on, n) : adam_with<false>(step, on, n);
}

template <class T>
void adamax(const AdamaxStep& step, const StepArrays<T>& on, std::int64_t n) {
  using V = Vec<T>;
  const V rate = splat<T>(step.rate), beta2 = splat<T>(step.beta2), keep1 = splat<T>(step.keep1),
          eps = splat<T>(step.eps), decay = splat<T>(step.decay);
  each<3>(on, n, [=](V& p, V g, V* s) {
    g = g + decay * p;
    s[0] = s[0] + keep1 * (g - s[0]);
    s[1] = xsimd::max(beta2 * s[1], xsimd::abs(g) + eps);
    p = p - rate * s[0] / s[1];
  });
}

template <bool centered, bool moves, class T>
void rmsprop_with(const RmspropStep& step, const StepArrays<T>& on, std::int64_t n) {
  using V = Vec<T>;
  const V lr = splat<T>(step.lr), alpha = splat<T>(step.alpha), keep = splat<T>(step.keep), eps = splat<T>(step.eps),
          momentum = splat<T>(step.momentum), decay = splat<T>(step.decay), zero = splat<T>(0);
  each<1 | centered << 1 | moves << 2>(on, n, [=](V& p, V g, V* s) {
    g = g + decay * p;
    s[0] = alpha * s[0] + keep * (g * g);
    V variance = s[0];
    if (centered) {
      s[1] = s[1] + keep * (g - s[1]);
      variance = xsimd::max(variance - s[1] * s[1], zero);  // rounding may bring it below
    }
    const V d = g / (xsimd::sqrt(variance) + eps);
    if (moves) s[2] = momentum * s[2] + d;
    p = p - lr * (moves ? s[2] : d);
  });
}

template <class T>
void rmsprop(const RmspropStep& step, const StepArrays<T>& on, std::int64_t n) {
  if (on.state[1])
    on.state[2] ? rmsprop_with<true, true>(step, on, n) : rmsprop_with<true, false>(step, on, n);
  else
    on.state[2] ? rmsprop_with<false, true>(step, on, n) : rmsprop_with<false, false>(step, on, n);
}

template <class T>
void adagrad(const AdagradStep& step, const StepArrays<T>& on, std::int64_t n) {
  using V = Vec<T>;
  const V rate = splat<T>(step.rate), start = splat<T>(step.start), eps = splat<T>(step.eps),
          decay = splat<T>(step.decay);
  const bool first = step.first;
  each<1>(on, n, [=](V& p, V g, V* s) {
    g = g + decay * p;
    s[0] = (first ? start : s[0]) + g * g;
    p = p - rate * g / (xsimd::sqrt(s[0]) + eps);
  });
}

template <class T>
void lion(const LionStep& step, const StepArrays<T>& on, std::int64_t n) {
  using V = Vec<T>;
  const V lr = splat<T>(step.lr), keep1 = splat<T>(step.keep1), keep2 = splat<T>(step.keep2),
          shrink = splat<T>(step.shrink);
  each<1>(on, n, [=](V& p, V g, V* s) {
    p = shrink * p - lr * xsimd::sign(s[0] + keep1 * (g - s[0]));
    s[0] = s[0] + keep2 * (g - s[0]);
  });
}

template <class T>
void average(const AverageStep& step, const StepArrays<T>& on, std::int64_t n) {
  using V = Vec<T>;
  const V keep = splat<T>(step.keep);
  each<0>(on, n, [=](V& p, V g, V*) { p = p + keep * (g - p); });
}

template <class T>
double squares(const T* x, std::int64_t n) {
  constexpr int lanes = 16;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int k = 0; k < lanes; ++k) sums[k] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
  for (int k = 0; i < n; ++i, ++k) sums[k] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double total = 0;
  for (const double s : sums) total += s;
  return total;
}

}  // namespace

template <class IsaTag, class T>
const Optim<T>& optim_table() {
  static constexpr Optim<T> table{{sgd<T>},     {adam<T>}, {adamax<T>},  {rmsprop<T>},
                                  {adagrad<T>}, {lion<T>}, {average<T>}, squares<T>};
  return table;
}

template const Optim<float>& optim_table<FIT_ISA, float>();
template const Optim<double>& optim_table<FIT_ISA, double>();

}  // namespace fit::kernels
