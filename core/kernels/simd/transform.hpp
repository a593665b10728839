#pragma once
#include "kernels/simd/simd.hpp"

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Bytes between an element and the line that is fetched with it: Intel's processors themselves fetch too late for
// arrays that exceed the L2 cache (gelu takes 0.83 to 0.87 of the time on an Emerald Rapids). With shorter vectors, it
// gains nothing.
constexpr std::size_t fetched_ahead = 2048;

// For whole vectors.
template <class T, class F, class... In>
[[gnu::noinline, gnu::flatten]] void transform_vectors(T* out, std::int64_t n, const F& given, const In*... in) {
  const F f = given;  // a local copy: no store can alias it
  for (std::int64_t i = 0; i < n; i += Vec<T>::size) {
    if (sizeof(Vec<T>) == 64) (__builtin_prefetch(in + i + fetched_ahead / sizeof(In)), ...);
    f(load<Vec<T>>(in + i)...).store_unaligned(out + i);
  }
}

// The last elements of an array, and zeros up to a whole vector.
template <class T>
struct TailVector {
  TailVector(const T* p, std::int64_t n) { load_part<Vec<T>>(p, n).store_aligned(at); }
  alignas(64) T at[Vec<T>::size];
};

// For less than a vector. Where parts of vectors are slow to read and write, a program contains one copy of f for both.
template <class T, class F, class... In>
#if defined(__AVX512F__)
[[gnu::always_inline]] inline void transform_tail(T* out, std::int64_t n, const F& f, const In*... in) {
  store_part(f(load_part<Vec<T>>(in, n)...), out, n);
}
#else
[[gnu::noinline, gnu::flatten]] void transform_tail(T* out, std::int64_t n, const F& f, const In*... in) {
  alignas(64) T y[Vec<T>::size];
  transform_vectors(y, Vec<T>::size, f, static_cast<const T*>(TailVector<In>(in, n).at)...);
  store_part(load<Vec<T>>(y), out, n);
}
#endif

/// out[i] = f(in[i]...) for i < n, in vectors. The tail uses the same code, so the result of an element does not depend
/// on its position. out may be one of the inputs.
template <class T, class F, class... In>
inline void transform(T* out, std::int64_t n, const F& f, const In*... in) {
  const std::int64_t rest = n % static_cast<std::int64_t>(Vec<T>::size), full = n - rest;
  if (full > 0) transform_vectors(out, full, f, in...);
  if (rest > 0) transform_tail(out + full, rest, f, (in + full)...);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
