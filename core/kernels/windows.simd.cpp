#include "kernels/windows.hpp"

#include <limits>

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

// Writes a vector so.
template <bool apart, class V, class Access, class T>
void store_apart(const Access& access, const V& v, T* x, std::int64_t stride) {
  if constexpr (!apart) return access.store(v, x);
  constexpr auto W = static_cast<std::int64_t>(V::size);
  std::int64_t n = W;
  if constexpr (std::is_same_v<Access, Tail>) n = access.n;
  alignas(64) T lanes[W];
  store(v, lanes);
  for (std::int64_t i = 0; i < n; ++i) x[i * stride] = lanes[i];
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

// ---- pools --------------------------------------------------------------------------------------------------------

// The least j >= 0 with j stride >= n.
std::int64_t first_from(std::int64_t n, std::int64_t stride) { return n <= 0 ? 0 : (n + stride - 1) / stride; }

// Calls f(place, at, count) for the rows of places whose element (k, l) lies in x, for all (k, l) in order. at: the
// element of x for the first place.
template <class F>
void each_inside(const PoolLayout& p, const F& f) {
  const WindowLayout& w = p.w;
  for (std::int64_t k = 0; k < w.height; ++k)
    for (std::int64_t l = 0; l < w.width; ++l) {
      const std::int64_t col = l * w.dilation_right - p.before, to = first_from(w.cols - col, w.stride_right);
      const std::int64_t low = first_from(-col, w.stride_right), high = to < w.right ? to : w.right;
      for (std::int64_t i = 0; i < w.down; ++i) {
        const std::int64_t row = i * w.stride_down + k * w.dilation_down - p.above;
        if (row >= 0 && row < w.rows && low < high)
          f(i * w.right + low, row * w.cols + low * w.stride_right + col, high - low);
      }
    }
}

// The same, vector by vector: f(place, at, access).
template <class T, class F>
void each_vector_inside(const PoolLayout& p, const F& f) {
  each_inside(p, [&](std::int64_t place, std::int64_t at, std::int64_t count) {
    for_each_vector<Vec<T>>(count,
                            [&](std::int64_t i, auto access) { f(place + i, at + i * p.w.stride_right, access); });
  });
}

template <bool apart, class T>
void max(const PoolLayout& p, const T* x, T* y) {
  using V = Vec<T>;
  fill(y, p.w.places(), -std::numeric_limits<T>::infinity());
  each_vector_inside<T>(p, [&](std::int64_t place, std::int64_t at, auto a) {
    const V v = load_apart<apart, V>(a, x + at, p.w.stride_right), most = a.template load<V>(y + place, T(0));
    a.store(xsimd::select(v > most || xsimd::isnan(v), v, most), y + place);
  });
}

// dy becomes 0 where its element was found: it goes to no other.
template <bool apart, class T>
void max_back(const PoolLayout& p, const T* x, const T* y, T* dy, T* dx) {
  using V = Vec<T>;
  each_vector_inside<T>(p, [&](std::int64_t place, std::int64_t at, auto a) {
    const V v = load_apart<apart, V>(a, x + at, p.w.stride_right), most = a.template load<V>(y + place, T(0));
    const V seed = a.template load<V>(dy + place, T(0));
    const auto found = v == most || (xsimd::isnan(v) && xsimd::isnan(most));
    const V sum = load_apart<apart, V>(a, dx + at, p.w.stride_right) + xsimd::select(found, seed, V(T(0)));
    store_apart<apart>(a, sum, dx + at, p.w.stride_right);
    a.store(xsimd::select(found, V(T(0)), seed), dy + place);
  });
}

template <class T>
void add(const PoolLayout& p, const T* x, double* sums) {
  each_inside(p, [&](std::int64_t place, std::int64_t at, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) sums[place + i] += static_cast<double>(x[at + i * p.w.stride_right]);
  });
}

template <bool apart, class T>
void add_back(const PoolLayout& p, const T* dy, T* dx) {
  using V = Vec<T>;
  each_vector_inside<T>(p, [&](std::int64_t place, std::int64_t at, auto a) {
    const V sum = load_apart<apart, V>(a, dx + at, p.w.stride_right) + a.template load<V>(dy + place, T(0));
    store_apart<apart>(a, sum, dx + at, p.w.stride_right);
  });
}

template <class T>
void max(const PoolLayout& p, const T* x, T* y) {
  (p.w.stride_right == 1 ? max<false, T> : max<true, T>)(p, x, y);
}
template <class T>
void max_back(const PoolLayout& p, const T* x, const T* y, T* dy, T* dx) {
  (p.w.stride_right == 1 ? max_back<false, T> : max_back<true, T>)(p, x, y, dy, dx);
}
template <class T>
void add_back(const PoolLayout& p, const T* dy, T* dx) {
  (p.w.stride_right == 1 ? add_back<false, T> : add_back<true, T>)(p, dy, dx);
}

}  // namespace

template <class IsaTag, class T>
const PoolKernels<T>& pool_table() {
  static constexpr PoolKernels<T> table{max<T>, max_back<T>, add<T>, add_back<T>};
  return table;
}

template const PoolKernels<float>& pool_table<FIT_ISA, float>();
template const PoolKernels<double>& pool_table<FIT_ISA, double>();

template <class IsaTag, class T>
const WindowKernels<T>& window_table() {
  static constexpr WindowKernels<T> table{fill<T>, gather<T>, scatter<T>, multiply<T>, products<T>};
  return table;
}

template const WindowKernels<float>& window_table<FIT_ISA, float>();
template const WindowKernels<double>& window_table<FIT_ISA, double>();

}  // namespace fit::kernels
