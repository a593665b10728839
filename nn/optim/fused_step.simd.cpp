#include "optim/fused_step.hpp"

#include "fit/nn/optim/all.hpp"
#include "kernels/simd/for_each_vector.hpp"

namespace fit::kernels {
namespace {

template <class T>
struct VectorLoop {
  using V = Vec<T>;
  static V settled(const V& x) { return xsimd::select(xsimd::abs(x) < V(std::numeric_limits<T>::min()), V(T(0)), x); }
  template <class F>
  static void each(std::int64_t n, const F& f) {
    for_each_vector<V>(n, f);
  }
};

}  // namespace

template <class IsaTag, class T, class Step>
StepKernel<T, Step> step_kernel_of() {
  return run_step<VectorLoop<T>, T, Step>;
}

#define KERNEL(Step)                                                       \
  template StepKernel<float, Step> step_kernel_of<FIT_ISA, float, Step>(); \
  template StepKernel<double, Step> step_kernel_of<FIT_ISA, double, Step>();
#define ELEMENTWISE(NAME) KERNEL(optim::detail::Formula<optim::NAME##Options>)
#define TENSORS(NAME)
FIT_OPTIMIZERS(ELEMENTWISE, TENSORS)
KERNEL(AverageStep)

}  // namespace fit::kernels
