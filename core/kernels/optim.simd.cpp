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

}  // namespace

template <class IsaTag, class T, class Step>
StepKernel<T, Step> step_kernel_of() {
  return run<T, Step>;
}

#define X(Step)                                                            \
  template StepKernel<float, Step> step_kernel_of<FIT_ISA, float, Step>(); \
  template StepKernel<double, Step> step_kernel_of<FIT_ISA, double, Step>();
FIT_OPTIMIZER_STEPS(X)
#undef X

template <class IsaTag, class T>
SumOfSquares<T> sum_of_squares_of() {
  return squares<T>;
}
template SumOfSquares<float> sum_of_squares_of<FIT_ISA, float>();
template SumOfSquares<double> sum_of_squares_of<FIT_ISA, double>();

}  // namespace fit::kernels
