#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/simd/fma.hpp"

// Packs: a fixed number of lanes in as many registers as they need. For *.simd.cpp files only.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// A register of the widest kind for which the file is compiled. No function combines its lanes: what adds them up is
// written on packs, so no result depends on the width of registers.
template <class T>
using Vec = xsimd::batch<T, xsimd::default_arch>;

// N registers R of numbers or of truth values.
template <class R, int N>
struct Lanes {
  using Register = R;
  using value_type = typename R::value_type;
  static constexpr std::size_t size = N * R::size;

  Lanes() = default;
  explicit Lanes(value_type x) : low(x), high(x) {}
  Lanes(const Lanes<R, N / 2>& low, const Lanes<R, N / 2>& high) : low(low), high(high) {}
  Lanes& operator+=(const Lanes& x) { return *this = *this + x; }
  Lanes& operator*=(const Lanes& x) { return *this = *this * x; }

  Lanes<R, N / 2> low, high;
};
template <class R>
struct Lanes<R, 1> {
  using Register = R;
  using value_type = typename R::value_type;
  static constexpr std::size_t size = R::size;

  Lanes() = default;
  explicit Lanes(value_type x) : at(x) {}
  explicit Lanes(const R& at) : at(at) {}
  Lanes& operator+=(const Lanes& x) { return *this = *this + x; }
  Lanes& operator*=(const Lanes& x) { return *this = *this * x; }

  R at;
};

// 16 floats or 8 doubles on every processor: one register of AVX-512, two of AVX2, four of SSE2 or NEON.
template <class T>
using Pack = Lanes<Vec<T>, 64 / sizeof(Vec<T>)>;
constexpr int pack_registers = 64 / sizeof(Vec<float>);

template <class V>
inline constexpr bool is_pack = false;
template <class R, int N>
inline constexpr bool is_pack<Lanes<R, N>> = true;

// The pack of f(i) for its registers, whose first lane is lane i.
template <class V, class F>
inline V from_registers(const F& f, std::int64_t i = 0) {
  if constexpr (V::size == V::Register::size) {
    return V(f(i));
  } else {
    using Half = decltype(V::low);
    return V(from_registers<Half>(f, i), from_registers<Half>(f, i + static_cast<std::int64_t>(Half::size)));
  }
}
// Calls f(register, i) for the registers.
template <class R, int N, class F>
inline void for_registers(const Lanes<R, N>& v, const F& f, std::int64_t i = 0) {
  if constexpr (N == 1) {
    f(v.at, i);
  } else {
    for_registers(v.low, f, i);
    for_registers(v.high, f, i + static_cast<std::int64_t>(Lanes<R, N / 2>::size));
  }
}

// A vector that is one register.
template <class V>
inline const auto& register_of(const V& v) {
  if constexpr (is_pack<V>)
    return v.at;
  else
    return v;
}

// f(x...), lane by lane, for a function of registers.
template <int N, class F, class... R>
inline auto lanewise(const F& f, const Lanes<R, N>&... x) {
  using Result = Lanes<decltype(f(R()...)), N>;
  if constexpr (N == 1)
    return Result(f(x.at...));
  else
    return Result(lanewise(f, x.low...), lanewise(f, x.high...));
}

#define FIT_PACK_OPERATOR(op)                                             \
  template <class R, int N>                                               \
  inline auto operator op(const Lanes<R, N>& x, const Lanes<R, N>& y) {   \
    return lanewise([](const R& a, const R& b) { return a op b; }, x, y); \
  }
FIT_PACK_OPERATOR(+)
FIT_PACK_OPERATOR(-)
FIT_PACK_OPERATOR(*)
FIT_PACK_OPERATOR(/)
FIT_PACK_OPERATOR(<)
FIT_PACK_OPERATOR(>)
FIT_PACK_OPERATOR(==)
FIT_PACK_OPERATOR(|)
#undef FIT_PACK_OPERATOR
template <class R, int N>
inline auto operator-(const Lanes<R, N>& x) {
  return lanewise([](const R& a) { return -a; }, x);
}

// xsimd's functions of the same names.
#define FIT_PACK_FUNCTION(name)                                                \
  template <class... R, int N>                                                 \
  inline auto name(const Lanes<R, N>&... x) {                                  \
    return lanewise([](const auto&... a) { return xsimd::name(a...); }, x...); \
  }
FIT_PACK_FUNCTION(abs)
FIT_PACK_FUNCTION(fma)
FIT_PACK_FUNCTION(fnma)
FIT_PACK_FUNCTION(isnan)
FIT_PACK_FUNCTION(max)
FIT_PACK_FUNCTION(select)
#undef FIT_PACK_FUNCTION

template <class R, int N>
inline bool any(const Lanes<R, N>& c) {
  if constexpr (N == 1)
    return xsimd::any(c.at);
  else
    return any(c.low | c.high);
}

// f(a, b) of the first and the second half of the lanes, and so on to one number: the tree in which every sum of lanes
// ends. f is a function of registers and of numbers.
template <class F, class R, int N>
inline auto combine_lanes(const F& f, const Lanes<R, N>& v) {
  if constexpr (N > 1) {
    return combine_lanes(f, lanewise(f, v.low, v.high));
  } else {
    alignas(64) typename R::value_type lane[R::size];
    v.at.store_aligned(lane);
    for (std::size_t half = R::size / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) lane[i] = f(lane[i], lane[i + half]);
    return lane[0];
  }
}

#if defined(__SSE2__)
// The same in registers, for functions f of two registers of the narrowest kind.
template <class F>
inline float fold_register(const F& f, __m128 v) {
  v = f(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(f(v, _mm_shuffle_ps(v, v, 1)));
}
template <class F>
inline double fold_register(const F& f, __m128d v) {
  return _mm_cvtsd_f64(f(v, _mm_unpackhi_pd(v, v)));
}
#endif
#if defined(__AVX__)
template <class F>
inline float fold_register(const F& f, __m256 v) {
  return fold_register(f, f(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
}
template <class F>
inline double fold_register(const F& f, __m256d v) {
  return fold_register(f, f(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1)));
}
#endif
#if defined(__AVX512F__)
template <class F>
inline float fold_register(const F& f, __m512 v) {
  const __m256 half = f(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  return fold_register(f, half);
}
template <class F>
inline double fold_register(const F& f, __m512d v) {
  const __m256d half = f(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
  return fold_register(f, half);
}
#endif

struct SumOfTwo {
  template <class V>
  V operator()(const V& a, const V& b) const {
    return a + b;
  }
};
struct LargerOfTwo {
#if defined(__SSE2__)
  __m128 operator()(__m128 a, __m128 b) const { return _mm_max_ps(a, b); }
  __m128d operator()(__m128d a, __m128d b) const { return _mm_max_pd(a, b); }
#endif
#if defined(__AVX__)
  __m256 operator()(__m256 a, __m256 b) const { return _mm256_max_ps(a, b); }
  __m256d operator()(__m256d a, __m256d b) const { return _mm256_max_pd(a, b); }
#endif
  template <class T>
  T operator()(const T& a, const T& b) const {
    if constexpr (std::is_arithmetic_v<T>)
      return a > b ? a : b;
    else
      return xsimd::max(a, b);
  }
};

template <class F, class R, int N>
inline auto fold_lanes(const F& f, const Lanes<R, N>& v) {
#if defined(__SSE2__)
  if constexpr (N > 1)
    return fold_lanes(f, lanewise(f, v.low, v.high));
  else
    return fold_register(f, v.at.data);
#else
  return combine_lanes(f, v);
#endif
}
template <class V>
inline auto sum_lanes(const V& v) {
  return fold_lanes(SumOfTwo(), v);
}
// The maximum; it may ignore NaN.
template <class V>
inline auto max_lanes(const V& v) {
  return fold_lanes(LargerOfTwo(), v);
}

// out[i] = the sum of the lanes of v[i], for Count <= 4 packs.
template <class T, int Count>
inline void sum_lanes(const Pack<T> (&v)[Count], T (&out)[Count]) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {  // the four sums side by side, by the same tree
    const auto pair = [v](int i) {
      const __m512 a = v[i].at, b = i + 1 < Count ? v[i + 1].at : Vec<T>(T(0));
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

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
