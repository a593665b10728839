#pragma once
#include "kernels/simd/simd.hpp"

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

/// out[i] = f(in[i]...) for i < n, in vectors. The tail uses the same code, so the result of an element does not depend
/// on its position. out may be one of the inputs.
template <class T, class F, class... In>
inline void transform(T* out, std::int64_t n, const F& f, const In*... in) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  for (std::int64_t i = 0; i < n; i += W) {
    const std::int64_t rest = n - i;
    const V y = f(rest < W ? load_part<V>(in + i, rest) : load<V>(in + i)...);
    rest < W ? store_part(y, out + i, rest) : y.store_unaligned(out + i);
  }
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
