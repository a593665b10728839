#include "kernels/rows/distances.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/simd/narrow.hpp"
#include "kernels/simd/transpose.hpp"

namespace fit::kernels {
namespace {

using Wide = Vec<double>;
constexpr std::int64_t W = Wide::size;
constexpr std::int64_t block = 64;  // terms that are added up before they are added to the others

// Copies numbers [rows, n], ld from each other, to doubles [rows, width]; fills up with 0.
template <class T>
void read_wide(double* out, std::int64_t width, const T* x, std::int64_t ld, std::int64_t rows, std::int64_t n) {
  for (std::int64_t i = 0; i < rows; ++i, out += width, x += ld) {
    std::int64_t c = 0;
    for (; c + W <= n; c += W) store(load_wide<Wide>(x + c), out + c);
    for (; c < n; ++c) out[c] = x[c];
    for (; c < width; ++c) out[c] = 0;
  }
}
template <class T>
void write_narrow(T* y, const double* sums, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(sums[i]);
}

// The rows of one register tile: a few of a, and `beside` of b.
constexpr std::int64_t beside = 16;
constexpr int registers = beside / W, few = registers < 8 ? 8 / registers : 1;

// sums[i, j] += the sum over c < n of (a[i, c] - b[c, j])^2, for a few rows i, `ld` from each other, and all j.
void add_squares(double* sums, const double* a, std::int64_t ld, const double* b, std::int64_t n) {
  Wide sum[few][registers];
  FIT_UNROLL for (int i = 0; i < few; ++i) FIT_UNROLL for (int r = 0; r < registers; ++r) sum[i][r] = Wide(0.);
  for (std::int64_t c = 0; c < n; ++c, b += beside) FIT_UNROLL for (int i = 0; i < few; ++i) {
      const Wide x(a[i * ld + c]);
      FIT_UNROLL for (int r = 0; r < registers; ++r) {
        const Wide d = x - load<Wide>(b + r * W);
        sum[i][r] = sum[i][r] + d * d;
      }
    }
  FIT_UNROLL for (int i = 0; i < few; ++i) FIT_UNROLL for (int r = 0; r < registers; ++r) {
    double* const total = sums + i * beside + r * W;
    store(load<Wide>(total) + sum[i][r], total);
  }
}

// The sum of f(0) … f(n - 1), in blocks.
template <class F>
double sum_in_blocks(std::int64_t n, const F& f) {
  double total = 0;
  for (std::int64_t first = 0; first < n; first += block) {
    double sum = 0;
    for (std::int64_t i = first; i < n && i < first + block; ++i) sum += f(i);
    total += sum;
  }
  return total;
}
// Whether plain loops, which give the same bits, take less time than filling tiles.
bool is_small(std::int64_t m, std::int64_t n, std::int64_t C) { return m * n * (C + 4) < 128; }

template <class T>
void small_euclidean(T* y, const T* a, std::int64_t m, const T* b, std::int64_t n, std::int64_t C) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const auto square = [&](std::int64_t c) {
        const double d = static_cast<double>(a[i * C + c]) - static_cast<double>(b[j * C + c]);
        return d * d;
      };
      y[i * n + j] = static_cast<T>(std::sqrt(sum_in_blocks(C, square)));
    }
}

template <class T>
void euclidean(T* y, const T* a, std::int64_t m, const T* b, std::int64_t n, std::int64_t C, double* wide) {
  if (is_small(m, n, C)) return small_euclidean(y, a, m, b, n, C);
  alignas(64) double sums[distance_rows * beside], right[block * beside];
  T turned[block * beside];
  const std::int64_t rows = (m + few - 1) / few * few;
  read_wide(wide, C, a, C, m, C);
  read_wide(wide + m * C, C, a, 0, rows - m, 0);
  for (std::int64_t j = 0; j < n; j += beside) {
    const std::int64_t count = n - j < beside ? n - j : beside;
    for (std::int64_t i = 0; i < rows * beside; ++i) sums[i] = 0;
    for (std::int64_t first = 0; first < C; first += block) {
      const std::int64_t terms = C - first < block ? C - first : block;
      if (count < beside) std::fill_n(turned, terms * beside, T(0));
      transpose(count, terms, b + j * C + first, C, turned, beside);
      read_wide(right, beside, turned, beside, terms, beside);
      for (std::int64_t i = 0; i < rows; i += few)
        add_squares(sums + i * beside, wide + i * C + first, C, right, terms);
    }
    for (std::int64_t i = 0; i < m; ++i) {
      double* const total = sums + i * beside;
      FIT_UNROLL for (int r = 0; r < registers; ++r) store(xsimd::sqrt(load<Wide>(total + r * W)), total + r * W);
      write_narrow(y + i * n + j, total, count);
    }
  }
}

// Whether |v| is a normal number of T, or 0 or NaN.
template <class T>
auto is_plain(const Wide& v) {
  using Limits = std::numeric_limits<T>;
  const Wide size = xsimd::abs(v);
  return ((size >= Wide(Limits::min())) & (size <= Wide(Limits::max()))) | (v == Wide(0.)) | isnan(v);
}

template <class T>
bool weights(double* w, const T* dy, const T* y, std::int64_t n) {
  bool exact = true;
  for (std::int64_t i = 0; i < n; i += W) {
    const bool full = n - i >= W;
    const Wide seed = full ? load_wide<Wide>(dy + i) : load_wide_part<Wide>(dy + i, n - i),
               distance = full ? load_wide<Wide>(y + i) : load_wide_part<Wide>(y + i, n - i);
    const Wide v = select(distance == Wide(0.), Wide(0.), seed / distance);
    exact &= xsimd::all(is_plain<T>(distance) & is_plain<double>(v));
    if (full)
      store(v, w + i);
    else
      store_part(v, w + i, n - i);
  }
  return exact;
}

// sums[c] += the sum over j < n of w[j wj] (x[c] - y[j, c]), for the columns of R registers.
template <int R>
void add_weighted(double* sums, const double* x, const double* y, std::int64_t n, const double* w, std::int64_t wj) {
  Wide sum[R];
  FIT_UNROLL for (int r = 0; r < R; ++r) sum[r] = Wide(0.);
  for (std::int64_t j = 0; j < n; ++j, y += R * W, w += wj) {
    const Wide weight(*w);
    FIT_UNROLL for (int r = 0; r < R; ++r) sum[r] = sum[r] + weight * (load<Wide>(x + r * W) - load<Wide>(y + r * W));
  }
  FIT_UNROLL for (int r = 0; r < R; ++r) store(load<Wide>(sums + r * W) + sum[r], sums + r * W);
}

// `width` columns of dx.
template <int R, class T>
void weighted_columns(T* dx, const T* x, std::int64_t m, const T* y, std::int64_t n, std::int64_t C, std::int64_t width,
                      const double* w, std::int64_t wi, std::int64_t wj) {
  constexpr std::int64_t columns = R * W;
  alignas(64) double sums[distance_rows * columns], left[distance_rows * columns], right[block * columns];
  read_wide(left, columns, x, C, m, width);
  read_wide(sums, columns, x, 0, m, 0);
  for (std::int64_t j = 0; j < n; j += block) {
    const std::int64_t count = n - j < block ? n - j : block;
    read_wide(right, columns, y + j * C, C, count, width);
    for (std::int64_t i = 0; i < m; ++i)
      add_weighted<R>(sums + i * columns, left + i * columns, right, count, w + i * wi + j * wj, wj);
  }
  for (std::int64_t i = 0; i < m; ++i) write_narrow(dx + i * C, sums + i * columns, width);
}

template <class T>
void small_weighted(T* dx, const T* x, std::int64_t m, const T* y, std::int64_t n, std::int64_t C, const double* w,
                    std::int64_t wi, std::int64_t wj) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t c = 0; c < C; ++c)
      dx[i * C + c] = static_cast<T>(sum_in_blocks(n, [&](std::int64_t j) {
        return w[i * wi + j * wj] * (static_cast<double>(x[i * C + c]) - static_cast<double>(y[j * C + c]));
      }));
}

template <class T>
void weighted(T* dx, const T* x, std::int64_t m, const T* y, std::int64_t n, std::int64_t C, const double* w,
              std::int64_t wi, std::int64_t wj) {
  if (is_small(m, n, C)) return small_weighted(dx, x, m, y, n, C, w, wi, wj);
  for (std::int64_t c = 0, width; c < C; c += width) {
    width = C - c < 4 * W ? C - c : 4 * W;
    const auto part = width > 2 * W ? weighted_columns<4, T>
                      : width > W   ? weighted_columns<2, T>
                                    : weighted_columns<1, T>;
    part(dx + c, x + c, m, y + c, n, C, width, w, wi, wj);
  }
}

}  // namespace

template <class IsaTag, class T>
const DistanceKernels<T>& distance_table() {
  static constexpr DistanceKernels<T> table{euclidean<T>, weights<T>, weighted<T>};
  return table;
}

template const DistanceKernels<float>& distance_table<FIT_ISA, float>();
template const DistanceKernels<double>& distance_table<FIT_ISA, double>();

}  // namespace fit::kernels
