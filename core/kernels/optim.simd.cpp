#include "kernels/optim.hpp"

#include "kernels/simd/for_each_vector.hpp"

namespace fit::kernels {
namespace {

// One pass: loads, updates and stores the arrays of a step, vector by vector.
template <class T, class Step>
void run(const Step& given, const StepArrays<T>& on, std::int64_t n) {
  using V = Vec<T>;
  static constexpr int max_states = StepArrays<T>::max_states;
  const auto form = [&on, n, step = given](auto mask) {  // a local copy of the step: no store can alias it
    constexpr unsigned states = decltype(mask)::value;
    for_each_vector<V>(n, [&on, step, sign = V(on.sign)](std::int64_t i, auto at, int) {
      V p = at.template load<V>(on.parameter + i, T(0)), s[max_states];
      for (int k = 0; k < max_states; ++k)
        if (states >> k & 1) s[k] = at.template load<V>(on.state[k] + i, T(0));
      step.template update<states>(p, sign * at.template load<V>(on.gradient + i, T(0)), s);
      at.store(p, on.parameter + i);
      for (int k = 0; k < max_states; ++k)
        if (states >> k & 1) at.store(s[k], on.state[k] + i);
    });
  };
  with_states(given, form, typename Step::Forms());
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

template <class T, class... Steps>
constexpr StepKernels<T, StepTypes<Steps...>> table_of(StepTypes<Steps...>) {
  return {{run<T, Steps>}..., squares<T>};
}

}  // namespace

template <class IsaTag, class T>
const Optim<T>& optim_table() {
  static constexpr Optim<T> table = table_of<T>(OptimizerSteps());
  return table;
}

template const Optim<float>& optim_table<FIT_ISA, float>();
template const Optim<double>& optim_table<FIT_ISA, double>();

}  // namespace fit::kernels
