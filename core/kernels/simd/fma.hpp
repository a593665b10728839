#pragma once
#include <xsimd/xsimd.hpp>

#include "kernels/simd/fused.hpp"

// xsimd's fma(), fms(), fnma() and fnms(), rounded once on every processor. xsimd 8.1 multiplies and adds in two steps
// for AVX-512, and where there are no instructions for it; its own functions (exp, log, …) call these four. Kernels are
// compiled without contraction, so nothing else fuses a product and a sum. For *.simd.cpp files only.
#if defined(__AVX512F__) || (defined(__SSE2__) && !defined(__FMA__)) || defined(__aarch64__)
#define FIT_FUSED(name, T, a, c)                                                                                       \
  template <>                                                                                                          \
  inline batch<T, default_arch> name<default_arch>(batch<T, default_arch> const& x, batch<T, default_arch> const& y,   \
                                                   batch<T, default_arch> const& z, requires_arch<generic>) noexcept { \
    return fit::kernels::fused(a, y.data, c);                                                                          \
  }
namespace xsimd::kernel {
#if !defined(__aarch64__)
FIT_FUSED(fma, float, x.data, z.data)
FIT_FUSED(fma, double, x.data, z.data)
FIT_FUSED(fms, float, x.data, -z.data)
FIT_FUSED(fms, double, x.data, -z.data)
#endif
FIT_FUSED(fnma, float, -x.data, z.data)
FIT_FUSED(fnma, double, -x.data, z.data)
FIT_FUSED(fnms, float, -x.data, -z.data)
FIT_FUSED(fnms, double, -x.data, -z.data)
}  // namespace xsimd::kernel
#undef FIT_FUSED
#endif

#if defined(__AVX512F__)
namespace xsimd::kernel {
// Without these, -x is 0 - x, which is 0 for x = 0.
template <>
inline batch<float, default_arch> neg<default_arch>(batch<float, default_arch> const& x,
                                                    requires_arch<avx512f>) noexcept {
  return -x.data;
}
template <>
inline batch<double, default_arch> neg<default_arch>(batch<double, default_arch> const& x,
                                                     requires_arch<avx512f>) noexcept {
  return -x.data;
}
}  // namespace xsimd::kernel
#endif
