#pragma once
#include "kernels/simd/narrow.hpp"
#include "kernels/simd/nontemporal.hpp"

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

// Numbers as a vector of T or of double; absent lanes are `absent`.
template <class V, class T>
V load_or(const Full&, const T* x, double) {
  if constexpr (std::is_same_v<V, Vec<double>>)
    return load_wide<V>(x);
  else
    return load<V>(x);
}
template <class V, class T>
V load_or(const Tail& tail, const T* x, double absent) {
  if constexpr (std::is_same_v<V, Vec<T>>)
    return load_part<V>(x, tail.n, static_cast<T>(absent));
  else
    return select(mask_of_bits<V>((std::uint64_t{1} << tail.n) - 1), load_wide_part<V>(x, tail.n), V(absent));
}

// Calls f(i, access) for the vectors at i = 0, V::size … below n.
template <class V, class Access = Full, class F>
inline void for_each_vector(std::int64_t n, const F& f) {
  constexpr std::int64_t W = V::size;
  std::int64_t i = 0;
  for (; i + W <= n; i += W) f(i, Access{});
  if (i < n) f(i, Tail{n - i});
}

// Calls f(i, access) for the vectors of a row y, which f stores. If nontemporal, stores bypass the caches from the
// first whole line of y on.
template <class V, class T, class F>
inline void for_each_vector_nontemporal(bool nontemporal, const T* y, std::int64_t n, const F& f) {
  if (!nontemporal) return for_each_vector<V>(n, f);
  const std::int64_t to_line = to_next_line(y), head = to_line < n ? to_line : n;
  for_each_vector<V>(head, f);
  for_each_vector<V, NonTemporal>(n - head, [&](std::int64_t i, auto a) { f(head + i, a); });
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
