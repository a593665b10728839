#include "kernels/functions.hpp"

#include "kernels/function_list.hpp"
#include "kernels/simd/transform.hpp"

namespace fit::kernels {
namespace {

template <class Formula, class T>
void forward(T* y, const T* x, std::int64_t n, T p) {
  using V = Vec<T>;
  transform(
      y, n, [p = V(p)](const V& a) { return Formula::f(a, p); }, x);
}

template <class Formula, class T>
void backward(T* dx, const T* dy, const T* v, std::int64_t n, T p) {
  using V = Vec<T>;
  transform(
      dx, n, [p = V(p)](const V& g, const V& a) { return Formula::df(g, a, p); }, dy, v);
}

}  // namespace

#define X(name, Formula)                                                                                       \
  template <class IsaTag, class T>                                                                             \
  const FunctionKernels<T>& function_kernels::name() {                                                         \
    static constexpr FunctionKernels<T> both{forward<functions::Formula, T>, backward<functions::Formula, T>}; \
    return both;                                                                                               \
  }                                                                                                            \
  template const FunctionKernels<float>& function_kernels::name<FIT_ISA, float>();                             \
  template const FunctionKernels<double>& function_kernels::name<FIT_ISA, double>();
FIT_FUNCTIONS(X)
#undef X

}  // namespace fit::kernels
