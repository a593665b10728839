#pragma once
#include "kernels/simd/simd.hpp"

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// For whole vectors. A program contains one copy of f for both the vectors and the tail.
template <class T, class F, class... In>
[[gnu::noinline, gnu::flatten]] void transform_vectors(T* out, std::int64_t n, const F& given, const In*... in) {
  const F f = given;  // a local copy: no store can alias it
  for (std::int64_t i = 0; i < n; i += Vec<T>::size) f(load<Vec<T>>(in + i)...).store_unaligned(out + i);
}

// The last elements of an array, and zeros up to a whole vector.
template <class T>
struct TailVector {
  TailVector(const T* p, std::int64_t n) { load_part<Vec<T>>(p, n).store_aligned(at); }
  alignas(64) T at[Vec<T>::size];
};

/// out[i] = f(in[i]...) for i < n, in vectors. The tail uses the same code, so the result of an element does not depend
/// on its position. out may be one of the inputs.
template <class T, class F, class... In>
inline void transform(T* out, std::int64_t n, const F& f, const In*... in) {
  constexpr std::int64_t W = Vec<T>::size;
  const std::int64_t rest = n % W, full = n - rest;
  if (full > 0) transform_vectors(out, full, f, in...);
  if (rest <= 0) return;
  alignas(64) T y[W];
  transform_vectors(y, W, f, static_cast<const T*>(TailVector<In>(in + full, rest).at)...);
  store_part(load<Vec<T>>(y), out + full, rest);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
