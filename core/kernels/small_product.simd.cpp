#include "kernels/small_product.hpp"

#include "kernels/tile_product.hpp"

namespace fit::kernels {
namespace {

// The matrix x [rows, cols] as [cols, rows].
template <class T>
void transpose(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, T* out) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) out[c * rows + r] = x[r * ld + c];
}

// c [m, n] = alpha op(a) b + beta c, where b lies in rows.
template <class T>
void multiply(const Product<T>& p, const T* a, const T* b, std::int64_t ldb, T* c) {
  if (p.beta != T(0) && p.beta != T(1))
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) c[i * p.ldc + j] *= p.beta;
  const bool add = p.beta != T(0);
  p.transpose_a ? tile_product<true>(p.m, p.n, p.k, p.alpha, a, p.lda, b, ldb, c, p.ldc, add)
                : tile_product<false>(p.m, p.n, p.k, p.alpha, a, p.lda, b, ldb, c, p.ldc, add);
}

template <class T>
void run(const Product<T>& p, const T* a, const T* b, T* c, T* scratch) {
  if (as_row(p)) {  // c' = b' op(a)'
    Product<T> row = p;
    row.m = 1;
    row.n = row.ldc = p.m;
    row.transpose_a = !p.transpose_b;
    row.lda = p.ldb;
    if (p.transpose_a) return multiply(row, b, a, p.lda, c);
    transpose(p.m, p.k, a, p.lda, scratch);
    return multiply(row, b, scratch, p.m, c);
  }
  if (!p.transpose_b) return multiply(p, a, b, p.ldb, c);
  transpose(p.n, p.k, b, p.ldb, scratch);
  multiply(p, a, scratch, p.n, c);
}

// Rows of c, M of them: every vector of b that is read serves all rows of a.
template <int M, class T>
void dots_of(const Product<T>& p, const T* a, const T* b, T* c) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  const std::int64_t whole = p.k / W * W, rest = p.k - whole;
  const auto store = [&](std::int64_t i, std::int64_t j, const V& sum) {
    T& to = c[i * p.ldc + j];
    to = p.alpha * sum_lanes(sum) + (p.beta == T(0) ? T(0) : p.beta * to);
  };
  std::int64_t j = 0;
  constexpr int R = 4;  // rows of b side by side, so that additions don't wait for each other
  for (; j + R <= p.n; j += R) {
    V sum[R][M];
    FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) sum[r][i] = V(T(0));
    const auto add = [&](auto get) {
      V x[M];
      FIT_UNROLL for (int i = 0; i < M; ++i) x[i] = get(a + i * p.lda);
      FIT_UNROLL for (int r = 0; r < R; ++r) {
        const V w = get(b + (j + r) * p.ldb);
        FIT_UNROLL for (int i = 0; i < M; ++i) sum[r][i] = sum[r][i] + x[i] * w;
      }
    };
    for (std::int64_t k = 0; k < whole; k += W) add([k](const T* at) { return load<V>(at + k); });
    if (rest) add([&](const T* at) { return load_part<V>(at + whole, rest); });
    FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) store(i, j + r, sum[r][i]);
  }
  for (; j < p.n; ++j)
    for (int i = 0; i < M; ++i) {
      V sum(T(0));
      for (std::int64_t k = 0; k < whole; k += W) sum = sum + load<V>(a + i * p.lda + k) * load<V>(b + j * p.ldb + k);
      if (rest) sum = sum + load_part<V>(a + i * p.lda + whole, rest) * load_part<V>(b + j * p.ldb + whole, rest);
      store(i, j, sum);
    }
}

template <class T>
void dots(const Product<T>& p, const T* a, const T* b, T* c) {
  switch (p.m) {
    case 1:
      return dots_of<1>(p, a, b, c);
    case 2:
      return dots_of<2>(p, a, b, c);
    case 3:
      return dots_of<3>(p, a, b, c);
    case 4:
      return dots_of<4>(p, a, b, c);
    default:
      return;
  }
}

}  // namespace

template <class IsaTag, class T>
const SmallProduct<T>& small_product_table() {
  static constexpr SmallProduct<T> table{run<T>, dots<T>};
  return table;
}

template const SmallProduct<float>& small_product_table<FIT_ISA, float>();
template const SmallProduct<double>& small_product_table<FIT_ISA, double>();

}  // namespace fit::kernels
