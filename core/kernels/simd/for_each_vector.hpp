#pragma once
#include "kernels/simd/narrow.hpp"

// Loops along a row by full vectors, and its tail. For *.simd.cpp files only.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Access to a full vector (Full), or to the first n lanes at the end of a row (Tail). Absent lanes read as `fill`.
struct Full {
  template <class V, class T>
  V load(const T* p, T) const {
    return kernels::load<V>(p);
  }
  template <class V>
  auto mask(const bool* c) const {
    return load_mask<V>(c);
  }
  template <class V, class T>
  void store(const V& v, T* p) const {
    kernels::store(v, p);
  }
};
// Access to a full vector; stores bypass the caches.
struct NonTemporal : Full {
  template <class V, class T>
  void store(const V& v, T* p) const {
    stream(v, p);
  }
};
struct Tail {
  std::int64_t n;
  template <class V, class T>
  V load(const T* p, T fill) const {
    return load_part<V>(p, n, fill);
  }
  template <class V>
  auto mask(const bool* c) const {
    return load_mask<V>(c, n);
  }
  template <class V, class T>
  void store(const V& v, T* p) const {
    store_part(v, p, n);
  }
};

// Calls f(i, access, j) for the vectors at i = 0, V::size … below n. `Unroll` neighbours get different j in 0 … Unroll
// - 1: the accumulator to use, so that their sums are independent.
template <class V, int Unroll = 1, class Access = Full, class F>
inline void for_each_vector(std::int64_t n, const F& f) {
  constexpr std::int64_t W = V::size;
  std::int64_t i = 0;
  if constexpr (Unroll == 4)
    for (; i + 4 * W <= n; i += 4 * W) {
      f(i, Access{}, 0);
      f(i + W, Access{}, 1);
      f(i + 2 * W, Access{}, 2);
      f(i + 3 * W, Access{}, 3);
    }
  for (; i + W <= n; i += W) f(i, Access{}, 0);
  if (i < n) f(i, Tail{n - i}, Unroll - 1);
}

template <class V, class F>
inline void for_each_vector_nontemporal(bool nontemporal, std::int64_t n, const F& f) {
  nontemporal ? for_each_vector<V, 1, NonTemporal>(n, f) : for_each_vector<V>(n, f);
}

// Independent accumulators of a sum or a maximum, which hide the latency of additions. Two where a loop has two sums:
// the registers of AVX2 hold eight accumulators of packs in all, and a few numbers.
template <class T, int N = 4>
struct Accumulators {
  using V = Pack<T>;
  V at[N];
  explicit Accumulators(T start) {
    for (V& v : at) v = V(start);
  }

  V& operator[](int j) { return at[j % N]; }
  T sum() const {
    return sum_lanes(all([](const V& a, const V& b) { return a + b; }));
  }
  T max() const {
    return max_lanes(all([](const V& a, const V& b) { return kernels::max(a, b); }));
  }

 private:
  template <class F>
  V all(const F& f) const {
    static_assert(N == 2 || N == 4);
    if constexpr (N == 2)
      return f(at[0], at[1]);
    else
      return f(f(at[0], at[1]), f(at[2], at[3]));
  }
};

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
