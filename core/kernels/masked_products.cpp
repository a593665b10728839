#include "kernels/masked_products.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fit::kernels {
namespace {

template <class T>
void clear(MatrixView<T> p, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill_n(p.data + i * p.stride, columns, T{0});
}

template <class F>
void each_visible(const VisiblePairs& p, const F& f) {
  for (std::int64_t q = 0; q < p.queries; ++q)
    for (std::int64_t k = 0; k < p.keys; ++k)
      if (p.visible.data[q * p.visible.stride + k]) f(q, k);
}

template <class T>
void add_scaled(T* y, T a, const T* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

}  // namespace

template <class T>
void masked_qk(const VisiblePairs& p, MatrixView<T> s, MatrixView<const T> x, MatrixView<const T> y) {
  clear(s, p.queries, p.keys);
  each_visible(p, [&](std::int64_t q, std::int64_t k) {
    T sum = 0;
    for (std::int64_t d = 0; d < p.features; ++d) sum += x.data[q * x.stride + d] * y.data[k * y.stride + d];
    s.data[q * s.stride + k] = sum;
  });
}

template <class T>
void masked_pv(const VisiblePairs& p, MatrixView<T> o, MatrixView<const T> s, MatrixView<const T> y) {
  clear(o, p.queries, p.features);
  each_visible(p, [&](std::int64_t q, std::int64_t k) {
    add_scaled(o.data + q * o.stride, s.data[q * s.stride + k], y.data + k * y.stride, p.features);
  });
}

template <class T>
void masked_pt_q(const VisiblePairs& p, MatrixView<T> o, MatrixView<const T> s, MatrixView<const T> x) {
  clear(o, p.keys, p.features);
  each_visible(p, [&](std::int64_t q, std::int64_t k) {
    add_scaled(o.data + k * o.stride, s.data[q * s.stride + k], x.data + q * x.stride, p.features);
  });
}

template <class T>
bool all_finite(MatrixView<const T> p, std::int64_t rows, std::int64_t columns) {
  int bad = 0;  // a NaN fails every comparison
  for (std::int64_t i = 0; i < rows && !bad; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      bad |= !(std::abs(p.data[i * p.stride + j]) <= std::numeric_limits<T>::max());
  return !bad;
}

#define FIT_VISIBLE(T)                                                                                        \
  template void masked_qk<T>(const VisiblePairs&, MatrixView<T>, MatrixView<const T>, MatrixView<const T>);   \
  template void masked_pv<T>(const VisiblePairs&, MatrixView<T>, MatrixView<const T>, MatrixView<const T>);   \
  template void masked_pt_q<T>(const VisiblePairs&, MatrixView<T>, MatrixView<const T>, MatrixView<const T>); \
  template bool all_finite<T>(MatrixView<const T>, std::int64_t, std::int64_t);
FIT_VISIBLE(float)
FIT_VISIBLE(double)
#undef FIT_VISIBLE

}  // namespace fit::kernels
