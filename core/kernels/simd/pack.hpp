#pragma once
#include "kernels/simd/for_each_vector.hpp"

// Packs: what adds up lanes. For *.simd.cpp files only.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// 16 floats or 8 doubles on every processor: one register of AVX-512, two of AVX2, four of SSE2 or NEON.
constexpr int pack_registers = 64 / sizeof(Vec<float>);
template <class T>
struct Pack {
  using V = Vec<T>;
  static constexpr std::size_t size = pack_registers * V::size;
  V at[pack_registers];

  explicit Pack(T x = T(0)) {
    for (V& v : at) v = V(x);
  }
  static Pack load(const T* p) {
    Pack all;
    for (int r = 0; r < pack_registers; ++r) all.at[r] = kernels::load<V>(p + r * V::size);
    return all;
  }
  void store(T* p) const {
    for (int r = 0; r < pack_registers; ++r) kernels::store(at[r], p + r * V::size);
  }
  // f(a, b), register by register.
  template <class F>
  static Pack of_two(const F& f, const Pack& a, const Pack& b) {
    Pack all;
    for (int r = 0; r < pack_registers; ++r) all.at[r] = f(a.at[r], b.at[r]);
    return all;
  }
};

struct SumOfTwo {
  template <class V>
  V operator()(const V& a, const V& b) const {
    return a + b;
  }
};
struct LargerOfTwo {  // may ignore NaN
  template <class V>
  V operator()(const V& a, const V& b) const {
    return xsimd::max(a, b);
  }
};

// f(a, b) of the first and the second half of the lanes, and so on to one number. f is a function of two registers of
// any width.
#if defined(__SSE2__)
template <class F>
inline float fold_register(const F& f, __m128 v) {
  using B = xsimd::batch<float, xsimd::sse2>;
  v = f(B(v), B(_mm_movehl_ps(v, v)));
  return _mm_cvtss_f32(f(B(v), B(_mm_shuffle_ps(v, v, 1))));
}
template <class F>
inline double fold_register(const F& f, __m128d v) {
  using B = xsimd::batch<double, xsimd::sse2>;
  return _mm_cvtsd_f64(f(B(v), B(_mm_unpackhi_pd(v, v))));
}
#endif
#if defined(__AVX__)
template <class F>
inline float fold_register(const F& f, __m256 v) {
  using B = xsimd::batch<float, xsimd::sse2>;
  const __m128 half = f(B(_mm256_castps256_ps128(v)), B(_mm256_extractf128_ps(v, 1)));
  return fold_register(f, half);
}
template <class F>
inline double fold_register(const F& f, __m256d v) {
  using B = xsimd::batch<double, xsimd::sse2>;
  const __m128d half = f(B(_mm256_castpd256_pd128(v)), B(_mm256_extractf128_pd(v, 1)));
  return fold_register(f, half);
}
#endif
#if defined(__AVX512F__)
template <class F>
inline float fold_register(const F& f, __m512 v) {
  using B = xsimd::batch<float, xsimd::avx>;
  const __m256 half = f(B(_mm512_castps512_ps256(v)), B(_mm512_extractf32x8_ps(v, 1)));
  return fold_register(f, half);
}
template <class F>
inline double fold_register(const F& f, __m512d v) {
  using B = xsimd::batch<double, xsimd::avx>;
  const __m256d half = f(B(_mm512_castpd512_pd256(v)), B(_mm512_extractf64x4_pd(v, 1)));
  return fold_register(f, half);
}
#endif
#if defined(__aarch64__)
template <class F>
inline float fold_register(const F& f, float32x4_t v) {
  using B = Vec<float>;
  const B two = f(B(v), B(vextq_f32(v, v, 2)));
  return f(two, B(vdupq_laneq_f32(two, 1))).get(0);
}
template <class F>
inline double fold_register(const F& f, float64x2_t v) {
  using B = Vec<double>;
  return f(B(v), B(vdupq_laneq_f64(v, 1))).get(0);
}
#endif

// The tree in which the lanes of a pack end.
template <class F, class T>
inline T fold_lanes(const F& f, Pack<T> v) {
  for (int half = pack_registers / 2; half > 0; half /= 2)
    for (int r = 0; r < half; ++r) v.at[r] = f(v.at[r], v.at[r + half]);
  return fold_register(f, v.at[0].data);
}
template <class T>
inline T sum_lanes(const Pack<T>& v) {
  return fold_lanes(SumOfTwo(), v);
}

// out[i] = the sum of the lanes of v[i], for Count <= 4 packs.
template <class T, int Count>
inline void sum_lanes(const Pack<T> (&v)[Count], T (&out)[Count]) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {  // the four sums side by side, by the same tree
    const auto pair = [&v](int i) {
      const __m512 a = v[i].at[0], b = i + 1 < Count ? v[i + 1].at[0] : Vec<T>(T(0));
      return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    };
    const __m512 low = pair(0), high = Count > 2 ? pair(2) : _mm512_setzero_ps();
    const __m512 quarter = _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xDD));
    const __m512 two = _mm512_add_ps(quarter, _mm512_permute_ps(quarter, 0x4E));
    const __m512 one = _mm512_add_ps(two, _mm512_permute_ps(two, 0xB1));
    const __m512 sums = _mm512_maskz_compress_ps(0x1111, one);
    _mm_mask_storeu_ps(out, (1 << Count) - 1, _mm512_castps512_ps128(sums));
    return;
  }
#endif
  for (int i = 0; i < Count; ++i) out[i] = sum_lanes(v[i]);
}

// Independent accumulators of a sum or a maximum, which hide the latency of additions: N packs, register by register.
// Two packs where a loop has two sums: AVX2 has 16 registers.
template <class T, int N = 4>
struct Accumulators {
  static_assert(N == 1 || N == 2 || N == 4);
  Pack<T> packs[N];

  explicit Accumulators(T start = T(0)) {
    for (Pack<T>& p : packs) p = Pack<T>(start);
  }
  explicit Accumulators(const Pack<T>& start) : packs{start} { static_assert(N == 1); }
  Vec<T>& operator[](int j) { return packs[j / pack_registers].at[j % pack_registers]; }

  // f of all packs, in pairs; f as for fold_register().
  template <class F>
  Pack<T> combined(const F& f) const {
    if constexpr (N == 1)
      return packs[0];
    else if constexpr (N == 2)
      return Pack<T>::of_two(f, packs[0], packs[1]);
    else
      return Pack<T>::of_two(f, Pack<T>::of_two(f, packs[0], packs[1]), Pack<T>::of_two(f, packs[2], packs[3]));
  }
  template <class F>
  T fold(const F& f) const {
    return fold_lanes(f, combined(f));
  }
  T sum() const { return fold(SumOfTwo()); }
  T max() const { return fold(LargerOfTwo()); }
  bool any_above(T limit) const {
    static_assert(N == 1);
    Vec<T> all = packs[0].at[0];
    for (int r = 1; r < pack_registers; ++r) all = xsimd::max(all, packs[0].at[r]);
    return xsimd::any(all > Vec<T>(limit));
  }
};

// The registers from i on of a pack that ends at n; the first has accumulator j.
template <class T, int registers, class F>
inline void accumulate_tail(std::int64_t i, std::int64_t n, int j, const F& f) {
  constexpr std::int64_t W = Vec<T>::size;
  if constexpr (registers > 1) {
    if (i + W <= n) {
      f(i, Full{}, j);
      return accumulate_tail<T, registers - 1>(i + W, n, j + 1, f);
    }
  }
  if (i < n) f(i, Tail{n - i}, j);
}

// Calls f(i, access, j) for the registers at i = 0, Vec<T>::size … below n. j is the one of Accumulators<T, N> to use.
// Packs take turns, so the width of registers does not matter: the N of a block, then the first, and the last for a
// part of a pack.
template <class T, int N, class F>
inline void accumulate(std::int64_t n, const F& f) {
  constexpr std::int64_t W = Vec<T>::size, P = Pack<T>::size;
  std::int64_t i = 0;
  for (; i + N * P <= n; i += N * P) FIT_UNROLL for (int j = 0; j < N * pack_registers; ++j) f(i + j * W, Full{}, j);
  for (; i + P <= n; i += P) FIT_UNROLL for (int j = 0; j < pack_registers; ++j) f(i + j * W, Full{}, j);
  accumulate_tail<T, pack_registers>(i, n, (N - 1) * pack_registers, f);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
