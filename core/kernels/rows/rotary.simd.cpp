#include "kernels/rows/rotary.hpp"

#include "kernels/simd/for_each_vector.hpp"

namespace fit::kernels {
namespace {

// On vectors: of a loop over numbers in pairs, GCC 12 would make fused multiply-adds, whatever it is told.
template <class T>
void rotate_pairs(T* a, T* b, const T* x, const T* y, const T* cosine, const T* sine, std::int64_t pairs) {
  using V = Vec<T>;
  for_each_vector<V>(pairs, [&](std::int64_t i, auto access) {
    const auto get = [&](const T* p) { return access.template load<V>(p + i, T(0)); };
    const V u = get(x), v = get(y), c = get(cosine), s = get(sine);
    access.store(V(u * c - v * s), a + i);
    access.store(V(u * s + v * c), b + i);
  });
}

template <class T>
void rotate_halves(T* __restrict to, const T* __restrict from, const T* __restrict cosine, const T* __restrict sine,
                   std::int64_t pairs, std::int64_t heads) {
  for (; heads > 0; --heads, from += 2 * pairs, to += 2 * pairs)
    rotate_pairs(to, to + pairs, from, from + pairs, cosine, sine, pairs);
}

template <class T>
void rotate_interleaved(T* __restrict to, const T* __restrict from, const T* __restrict cosine,
                        const T* __restrict sine, std::int64_t pairs, std::int64_t heads) {
  constexpr std::int64_t block = 64;
  alignas(64) T x[block], y[block];
  for (; heads > 0; --heads, from += 2 * pairs, to += 2 * pairs)
    for (std::int64_t first = 0; first < pairs; first += block) {
      const std::int64_t n = pairs - first < block ? pairs - first : block;
      const T* const of = from + 2 * first;
      T* const out = to + 2 * first;
      for (std::int64_t i = 0; i < n; ++i) x[i] = of[2 * i], y[i] = of[2 * i + 1];
      rotate_pairs(x, y, x, y, cosine + first, sine + first, n);
      for (std::int64_t i = 0; i < n; ++i) out[2 * i] = x[i], out[2 * i + 1] = y[i];
    }
}

}  // namespace

template <class IsaTag, class T>
const RotaryKernels<T>& rotary_table() {
  static constexpr RotaryKernels<T> table{rotate_halves<T>, rotate_interleaved<T>};
  return table;
}

template const RotaryKernels<float>& rotary_table<FIT_ISA, float>();
template const RotaryKernels<double>& rotary_table<FIT_ISA, double>();

}  // namespace fit::kernels
