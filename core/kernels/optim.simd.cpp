#include "kernels/optim.hpp"

#include "kernels/simd.hpp"

namespace fit::kernels {
namespace {

// Loads a vector of each array, calls update(p, g, state) on them, and stores what may have changed.
template <int states, class T, class Update>
void each(const StepArrays<T>& on, std::int64_t n, const Update& update) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  std::int64_t i = 0;
  for (; i + W <= n; i += W) {
    V p = load<V>(on.parameter + i), s[states + 1];
    for (int k = 0; k < states; ++k) s[k] = load<V>(on.state[k] + i);
    update(p, load<V>(on.gradient + i), s);
    p.store_unaligned(on.parameter + i);
    for (int k = 0; k < states; ++k) s[k].store_unaligned(on.state[k] + i);
  }
  if (i == n) return;
  V p = load_part<V>(on.parameter + i, n - i), s[states + 1];
  for (int k = 0; k < states; ++k) s[k] = load_part<V>(on.state[k] + i, n - i);
  update(p, load_part<V>(on.gradient + i, n - i), s);
  store_part(p, on.parameter + i, n - i);
  for (int k = 0; k < states; ++k) store_part(s[k], on.state[k] + i, n - i);
}

template <class T>
Vec<T> all(double v) {
  return Vec<T>(static_cast<T>(v));
}

template <class T>
void sgd(const SgdStep& step, const StepArrays<T>& on, std::int64_t n) {
  using V = Vec<T>;
  const V lr = all<T>(step.lr), momentum = all<T>(step.momentum), keep = all<T>(step.keep), decay = all<T>(step.decay);
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

template <int states, class T>
void adam_with(const AdamStep& step, const StepArrays<T>& on, std::int64_t n) {
  using V = Vec<T>;
  const V rate = all<T>(step.rate), root = all<T>(step.root), beta2 = all<T>(step.beta2), keep1 = all<T>(step.keep1),
          keep2 = all<T>(step.keep2), eps = all<T>(step.eps), decay = all<T>(step.decay), shrink = all<T>(step.shrink);
  const bool decays = step.decay != 0;
  each<states>(on, n, [=](V& p, V g, V* s) {
    p = p * shrink;
    if (decays) g = g + decay * p;
    s[0] = s[0] + keep1 * (g - s[0]);
    s[1] = beta2 * s[1] + keep2 * (g * g);
    if constexpr (states == 3) s[2] = xsimd::max(s[2], s[1]);
    p = p - rate * s[0] / (xsimd::sqrt(s[states - 1]) / root + eps);
  });
}

template <class T>
void adam(const AdamStep& step, const StepArrays<T>& on, std::int64_t n) {
  on.state[2] ? adam_with<3>(step, on, n) : adam_with<2>(step, on, n);
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
  static constexpr Optim<T> table{sgd<T>, adam<T>, squares<T>};
  return table;
}

template const Optim<float>& optim_table<FIT_ISA, float>();
template const Optim<double>& optim_table<FIT_ISA, double>();

}  // namespace fit::kernels
