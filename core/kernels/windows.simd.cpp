#include "kernels/windows.hpp"

#include "kernels/simd/pack.hpp"

namespace fit::kernels {
namespace {

// Calls f(place within the block, i, j, count) for the rows of places.
template <class F>
void each_run(const WindowLayout& w, const WindowBlock& b, const F& f) {
  std::int64_t i = b.place / w.right, j = b.place % w.right;
  for (std::int64_t done = 0, n; done < b.places; done += n, ++i, j = 0) {
    n = b.places - done < w.right - j ? b.places - done : w.right - j;
    f(done, i, j, n);
  }
}

// Calls f(x, row) for each row of out: x is what its element (c, k, l) of the first window would be.
template <class P, class R, class F>
void each_element(const WindowLayout& w, const WindowBlock& b, P* x, R* out, const F& f) {
  for (std::int64_t c = b.channel; c < b.channel + b.channels; ++c)
    for (std::int64_t k = 0; k < w.height; ++k)
      for (std::int64_t l = 0; l < w.width; ++l, out += b.places) f(x + c * w.plane() + w.at(0, 0, k, l), out);
}

// The vector of numbers that are `stride` apart.
template <bool apart, class V, class Access, class T>
V load_apart(const Access& access, const T* x, std::int64_t stride) {
  if constexpr (!apart) return access.template load<V>(x, T(0));
  constexpr auto W = static_cast<std::int64_t>(V::size);
  std::int64_t n = W;
  if constexpr (std::is_same_v<Access, Tail>) n = access.n;
  alignas(64) T lanes[W] = {};
  for (std::int64_t i = 0; i < n; ++i) lanes[i] = x[i * stride];
  return load<V>(lanes);
}

template <class T>
void fill(T* y, std::int64_t n, T value) {
  for_each_vector<Vec<T>>(n, [y, v = Vec<T>(value)](std::int64_t i, auto access) { access.store(v, y + i); });
}

// A row is written by whole vectors: the next row overwrites what is too much.
template <class T>
void gather(const WindowLayout& w, const WindowBlock& b, const T* x, T* out) {
  using V = Vec<T>;
  static_assert(V::size <= WindowLayout::slack);
  each_element(w, b, x, out, [&](const T* first, T* row) {
    each_run(w, b, [&](std::int64_t place, std::int64_t i, std::int64_t j, std::int64_t n) {
      const T* const from = first + w.at(i, j, 0, 0);
      T* const to = row + place;
      if (w.stride_right == 1)
        for (std::int64_t v = 0; v < n; v += V::size) load<V>(from + v).store_unaligned(to + v);
      else if (w.stride_right == 2)
        for (std::int64_t v = 0; v < n; ++v) to[v] = from[2 * v];
      else
        for (std::int64_t v = 0; v < n; ++v) to[v] = from[v * w.stride_right];
    });
  });
}

template <class T>
void scatter(const WindowLayout& w, const WindowBlock& b, const T* from, T* x) {
  using V = Vec<T>;
  each_element(w, b, x, from, [&](T* first, const T* row) {
    each_run(w, b, [&](std::int64_t place, std::int64_t i, std::int64_t j, std::int64_t n) {
      T* const to = first + w.at(i, j, 0, 0);
      if (w.stride_right == 1)
        for_each_vector<V>(n, [&](std::int64_t v, auto a) {
          a.store(a.template load<V>(to + v, T(0)) + a.template load<V>(row + place + v, T(0)), to + v);
        });
      else
        for (std::int64_t v = 0; v < n; ++v) to[v * w.stride_right] += row[place + v];
    });
  });
}

template <bool apart, class T>
void multiply(const WindowLayout& w, const WindowBlock& b, const T* x, const T* weight, T* y) {
  using V = Vec<T>;
  each_run(w, b, [&](std::int64_t place, std::int64_t i, std::int64_t j, std::int64_t n) {
    const T* const first = x + b.channel * w.plane() + w.at(i, j, 0, 0);
    for_each_vector<V>(n, [&](std::int64_t v, auto a) {
      V sum = a.template load<V>(y + place + v, T(0));
      for (std::int64_t k = 0; k < w.height; ++k)
        for (std::int64_t l = 0; l < w.width; ++l)
          sum = fma(V(weight[k * w.width + l]), load_apart<apart, V>(a, first + w.at(0, v, k, l), w.stride_right), sum);
      a.store(sum, y + place + v);
    });
  });
}
template <class T>
void multiply(const WindowLayout& w, const WindowBlock& b, const T* x, const T* weight, T* y) {
  (w.stride_right == 1 ? multiply<false, T> : multiply<true, T>)(w, b, x, weight, y);
}

template <bool apart, class T>
void products(const WindowLayout& w, const WindowBlock& b, const T* x, const T* y, double* totals) {
  using V = Vec<T>;
  for (std::int64_t k = 0; k < w.height; ++k)
    for (std::int64_t l = 0; l < w.width; ++l) {
      Accumulators<T, 1> sums(T(0));
      each_run(w, b, [&](std::int64_t place, std::int64_t i, std::int64_t j, std::int64_t n) {
        const T* const from = x + b.channel * w.plane() + w.at(i, j, k, l);
        accumulate<T, 1>(n, [&](std::int64_t v, auto a, int accumulator) {
          sums[accumulator] = fma(load_apart<apart, V>(a, from + v * w.stride_right, w.stride_right),
                                  a.template load<V>(y + place + v, T(0)), sums[accumulator]);
        });
      });
      totals[k * w.width + l] += static_cast<double>(sums.sum());
    }
}
template <class T>
void products(const WindowLayout& w, const WindowBlock& b, const T* x, const T* y, double* totals) {
  (w.stride_right == 1 ? products<false, T> : products<true, T>)(w, b, x, y, totals);
}

}  // namespace

template <class IsaTag, class T>
const WindowKernels<T>& window_table() {
  static constexpr WindowKernels<T> table{fill<T>, gather<T>, scatter<T>, multiply<T>, products<T>};
  return table;
}

template const WindowKernels<float>& window_table<FIT_ISA, float>();
template const WindowKernels<double>& window_table<FIT_ISA, double>();

}  // namespace fit::kernels
