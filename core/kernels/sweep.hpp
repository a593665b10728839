#pragma once
#include "kernels/simd.hpp"

// Walking along a row by vectors, its end included. For *.simd.cpp files only.
namespace fit::kernels {

// A whole vector, and the first n lanes of one: what is left of a row. Lanes that are not there read as `fill`.
struct Whole {
  template <class V, class T>
  V load(const T* p, T) const {
    return V::load_unaligned(p);
  }
  template <class V, class T>
  void store(const V& v, T* p) const {
    v.store_unaligned(p);
  }
};
// A whole vector whose result is stored past the caches.
struct Past : Whole {
  template <class V, class T>
  void store(const V& v, T* p) const {
    stream(v, p);
  }
};
struct Part {
  std::int64_t n;
  template <class V, class T>
  V load(const T* p, T fill) const {
    return load_part<V>(p, n, fill);
  }
  template <class V, class T>
  void store(const V& v, T* p) const {
    store_part(v, p, n);
  }
};

// Calls f(i, access, j) for the vectors beginning at i = 0, V::size … below n. Of `Unroll` neighbours each gets its own
// j in 0 … Unroll - 1: the accumulator to use, so that sums don't wait for one another.
template <class V, int Unroll = 1, class Access = Whole, class F>
inline void sweep(std::int64_t n, const F& f) {
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
  if (i < n) f(i, Part{n - i}, Unroll - 1);
}

template <class V, class F>
inline void sweep_past(bool past, std::int64_t n, const F& f) {
  past ? sweep<V, 1, Past>(n, f) : sweep<V>(n, f);
}

// Four accumulators of a sum or a maximum, and what they come to: pairs of lanes are joined in a fixed order.
template <class V>
struct Accumulators {
  using T = typename V::value_type;
  V at[4];
  explicit Accumulators(T start) : at{V(start), V(start), V(start), V(start)} {}

  template <class F>
  T join(const F& f) const {
    alignas(64) T lane[V::size];
    f(f(at[0], at[1]), f(at[2], at[3])).store_aligned(lane);
    for (std::size_t half = V::size / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) lane[i] = f(lane[i], lane[i + half]);
    return lane[0];
  }
  T sum() const {
    return join([](const auto& a, const auto& b) { return a + b; });
  }
};

}  // namespace fit::kernels
