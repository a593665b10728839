#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/simd/fma.hpp"

#if defined(__aarch64__)
// xsimd uses estimates for division and square root of floats, which only 32-bit processors need: the error is 2 units,
// and sqrt(infinity) is NaN.
namespace xsimd::kernel {
template <>
inline batch<float, neon64> div<neon64>(batch<float, neon64> const& a, batch<float, neon64> const& b,
                                        requires_arch<neon>) noexcept {
  return vdivq_f32(a, b);
}
template <>
inline batch<float, neon64> sqrt<neon64>(batch<float, neon64> const& a, requires_arch<neon>) noexcept {
  return vsqrtq_f32(a);
}
}  // namespace xsimd::kernel
#endif

// Shared by *.simd.cpp files: registers of the widest kind for which the file is compiled, and access to memory. No
// function here combines the lanes of one: see pack.hpp.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

template <class T>
using Vec = xsimd::batch<T, xsimd::default_arch>;

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int vector_registers = 32;
#else
constexpr int vector_registers = 16;
#endif

template <class V, class T>
inline V load(const T* p) {
  return V::load_unaligned(p);
}

template <class V, class T>
inline void store(const V& v, T* p) {
  v.store_unaligned(p);
}

// Copies n < size elements, size a power of two, in parts of size / 2 … 1: a loop over elements has more branches.
template <std::size_t size, class T>
inline void copy_part(const T* from, std::int64_t n, T* to) {
  FIT_UNROLL for (std::size_t part = size / 2; part > 0; part /= 2) {
    if (!(n & part)) continue;
    __builtin_memcpy(to, from, part * sizeof(T));
    from += part, to += part;
  }
}

// Loads the first n < V::size elements of p; the other lanes are `fill`. Does not read beyond them.
template <class V, class T>
inline V load_part(const T* p, std::int64_t n, T fill = T(0)) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return V(_mm512_mask_loadu_ps(V(fill), static_cast<__mmask16>((1u << n) - 1), p));
  else
    return V(_mm512_mask_loadu_pd(V(fill), static_cast<__mmask8>((1u << n) - 1), p));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    const __m256i lanes =
        _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return V(_mm256_blendv_ps(V(fill), _mm256_maskload_ps(p, lanes), _mm256_castsi256_ps(lanes)));
  } else {
    const __m256i lanes = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
    return V(_mm256_blendv_pd(V(fill), _mm256_maskload_pd(p, lanes), _mm256_castsi256_pd(lanes)));
  }
#else
  alignas(64) T buffer[V::size];
  V(fill).store_aligned(buffer);
  copy_part<V::size>(p, n, buffer);
  return V::load_aligned(buffer);
#endif
}

// Loads the first n <= V::size elements of c as a mask; the other lanes are false. Does not read beyond them.
template <class V>
inline typename V::batch_bool_type load_mask(const bool* c, std::int64_t n = V::size) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const __m128i bytes = _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << n) - 1), c);
  const __mmask16 lanes = _mm_test_epi8_mask(bytes, bytes);
  return static_cast<typename V::batch_bool_type::register_type>(lanes);
#else
  alignas(64) typename V::value_type lanes[V::size] = {};
  for (std::int64_t l = 0; l < n; ++l) lanes[l] = c[l];
  return V::load_aligned(lanes) != V(0);
#endif
}

// The lowest bits as a mask, one for each lane.
template <class V>
typename V::batch_bool_type mask_of_bits(std::uint64_t bits) {
#if defined(__AVX512F__)
  return static_cast<typename V::batch_bool_type::register_type>(bits);
#else
  using T = typename V::value_type;
  if constexpr (sizeof(T) == 4) {
    using Bits = xsimd::batch<std::int32_t, typename V::arch_type>;
    alignas(64) std::int32_t lanes[V::size];
    for (std::size_t l = 0; l < V::size; ++l) lanes[l] = std::int32_t{1} << l;
    return xsimd::to_float(Bits(static_cast<std::int32_t>(bits)) & Bits::load_aligned(lanes)) != V(0);
  } else {
    alignas(64) T lanes[V::size];
    for (std::size_t l = 0; l < V::size; ++l) lanes[l] = static_cast<T>(bits >> l & 1);
    return V::load_aligned(lanes) != V(0);
  }
#endif
}

// 0, 1, … in the lanes.
template <class V>
V lane_numbers() {
  using T = typename V::value_type;
  alignas(64) T lanes[V::size];
  for (std::size_t l = 0; l < V::size; ++l) lanes[l] = static_cast<T>(l);
  return V::load_aligned(lanes);
}

// Loads a vector of doubles from floats or doubles.
template <class V>
inline V load_wide(const double* p) {
  return V::load_unaligned(p);
}
template <class V>
inline V load_wide(const float* p) {
#if defined(__AVX512F__)
  return V(_mm512_cvtps_pd(_mm256_loadu_ps(p)));
#elif defined(__AVX__)
  return V(_mm256_cvtps_pd(_mm_loadu_ps(p)));
#else
  alignas(64) double buffer[V::size];
  for (std::size_t i = 0; i < V::size; ++i) buffer[i] = p[i];
  return V::load_aligned(buffer);
#endif
}

template <class V, class T>
inline void store_part(const V& v, T* p, std::int64_t n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
  else
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), v);
#else
  alignas(64) T buffer[V::size];
  v.store_aligned(buffer);
  copy_part<V::size>(buffer, n, p);
#endif
}

// Stores a vector without the caches. p is aligned to 64 bytes. Other threads see it after fence_nontemporal_stores().
template <class V, class T>
inline void stream(const V& v, T* p) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    _mm512_stream_ps(p, v);
  else
    _mm512_stream_pd(p, v);
#elif defined(__AVX__)
  if constexpr (sizeof(T) == 4)
    _mm256_stream_ps(p, v);
  else
    _mm256_stream_pd(p, v);
#else
  v.store_aligned(p);
#endif
}
inline void fence_nontemporal_stores() {
#if defined(__AVX__)
  _mm_sfence();
#endif
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
