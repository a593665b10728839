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

// Calls f(i, access) for the vectors at i = 0, V::size … below n.
template <class V, class Access = Full, class F>
inline void for_each_vector(std::int64_t n, const F& f) {
  constexpr std::int64_t W = V::size;
  std::int64_t i = 0;
  for (; i + W <= n; i += W) f(i, Access{});
  if (i < n) f(i, Tail{n - i});
}

template <class V, class F>
inline void for_each_vector_nontemporal(bool nontemporal, std::int64_t n, const F& f) {
  nontemporal ? for_each_vector<V, NonTemporal>(n, f) : for_each_vector<V>(n, f);
}

// Independent accumulators of a sum or a maximum, which hide the latency of additions: N packs, register by register.
// Two packs where a loop has two sums: AVX2 has 16 registers.
template <class T, int N = 4>
struct Accumulators {
  using V = Vec<T>;
  static constexpr int registers = pack_registers;
  V at[N * registers];
  explicit Accumulators(T start = T(0)) {
    for (V& v : at) v = V(start);
  }
  explicit Accumulators(const Pack<T>& start) {
    static_assert(N == 1);
    for_registers(start, [this](const V& v, std::int64_t lane) { at[lane / V::size] = v; });
  }

  V& operator[](int j) { return at[j]; }
  // f of all packs, a pack: f is a function of two registers.
  template <class F>
  Pack<T> combined(const F& f) const {
    static_assert(N == 1 || N == 2 || N == 4);
    const auto both = [&f](const Pack<T>& a, const Pack<T>& b) { return lanewise(f, a, b); };
    if constexpr (N == 1)
      return pack(0);
    else if constexpr (N == 2)
      return both(pack(0), pack(1));
    else
      return both(both(pack(0), pack(1)), both(pack(2), pack(3)));
  }
  Pack<T> lanes() const { return combined(SumOfTwo()); }  // their sums
  T sum() const { return sum_lanes(lanes()); }
  T max() const { return max_lanes(combined(LargerOfTwo())); }
  bool any_above(T limit) const { return any(combined(LargerOfTwo()) > Pack<T>(limit)); }

 private:
  Pack<T> pack(int j) const {
    return from_registers<Pack<T>>([&](std::int64_t lane) { return at[j * registers + lane / V::size]; });
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
// part.
template <class T, int N, class F>
inline void accumulate(std::int64_t n, const F& f) {
  constexpr std::int64_t W = Vec<T>::size, P = Pack<T>::size;
  constexpr int registers = Accumulators<T, N>::registers;
  std::int64_t i = 0;
  for (; i + N * P <= n; i += N * P) FIT_UNROLL for (int j = 0; j < N * registers; ++j) f(i + j * W, Full{}, j);
  for (; i + P <= n; i += P) FIT_UNROLL for (int j = 0; j < registers; ++j) f(i + j * W, Full{}, j);
  accumulate_tail<T, registers>(i, n, (N - 1) * registers, f);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
