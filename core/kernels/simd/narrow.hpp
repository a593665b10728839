#pragma once
#include "fit/base/bfloat16.hpp"
#include "kernels/simd/simd.hpp"

// Loads vectors of float from BFloat16 in memory, and stores them back. For *.simd.cpp files only.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// The bits of a vector of float, as a compiler vector. A BFloat16 is the upper half of a word.
typedef std::uint32_t FloatBits __attribute__((vector_size(sizeof(Vec<float>))));
typedef float Floats __attribute__((vector_size(sizeof(Vec<float>))));
typedef std::uint16_t HalfBits __attribute__((vector_size(sizeof(Vec<float>) / 2)));

inline FloatBits bits_of(const Vec<float>& v) {
  FloatBits w;
  __builtin_memcpy(&w, &v, sizeof w);
  return w;
}
inline Vec<float> float_of(const FloatBits& w) {
  Vec<float> v;
  __builtin_memcpy(&v, &w, sizeof v);
  return v;
}

// Rounds like BFloat16(float); the lower halves are undefined.
inline FloatBits round_bf16(const Vec<float>& v) {
  Floats x;
  __builtin_memcpy(&x, &v, sizeof x);
  const FloatBits w = bits_of(v);
  return x != x ? w | 0x400000u : w + 0x7fffu + (w >> 16 & 1u);
}

inline Vec<float> to_bf16_precision(const Vec<float>& v) { return float_of(round_bf16(v) & 0xffff0000u); }

template <class V>
inline V load(const BFloat16* p) {
  HalfBits h;
  __builtin_memcpy(&h, p, sizeof h);
  return float_of(__builtin_convertvector(h, FloatBits) << 16);
}
template <class V>
inline V load_part(const BFloat16* p, std::int64_t n, BFloat16 = {}) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const __m256i h = _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1), p);
  return float_of((FloatBits)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
#else
  BFloat16 buffer[V::size] = {};
  copy_part<V::size>(p, n, buffer);
  return load<V>(buffer);
#endif
}

template <class V>
inline void store(const V& v, BFloat16* p) {
  const HalfBits h = __builtin_convertvector(round_bf16(v) >> 16, HalfBits);
  __builtin_memcpy(p, &h, sizeof h);
}
template <class V>
inline void store_part(const V& v, BFloat16* p, std::int64_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const HalfBits h = __builtin_convertvector(round_bf16(v) >> 16, HalfBits);
  _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1), (__m256i)h);
#else
  BFloat16 buffer[V::size];
  store(v, buffer);
  copy_part<V::size>(buffer, n, p);
#endif
}

// Loads a vector of double.
template <class V>
inline V load_wide(const BFloat16* p) {
#if defined(__AVX512F__)
  const __m256i w = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16);
  return V(_mm512_cvtps_pd(_mm256_castsi256_ps(w)));
#elif defined(__AVX2__)
  const __m128i w = _mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i*)p)), 16);
  return V(_mm256_cvtps_pd(_mm_castsi128_ps(w)));
#else
  alignas(64) double buffer[V::size];
  for (std::size_t i = 0; i < V::size; ++i) buffer[i] = static_cast<float>(p[i]);
  return V::load_aligned(buffer);
#endif
}

// The first n < V::size numbers; the other lanes are 0.
template <class V, class T>
inline V load_wide_part(const T* p, std::int64_t n) {
  T buffer[V::size] = {};
  copy_part<V::size>(p, n, buffer);
  return load_wide<V>(buffer);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
