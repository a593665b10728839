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
  const std::int64_t full = n / W * W, rest = n - full;
  for (std::int64_t i = 0; i < full; i += W) f(load<V>(in + i)...).store_unaligned(out + i);
  if (rest) store_part(f(load_part<V>(in + full, rest)...), out + full, rest);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
