#include "kernels/product.hpp"

#include "kernels/tile_product.hpp"
#include "kernels/transpose.hpp"

namespace fit::kernels {
namespace {

template <class T>
void tile(const Product<T>& p, const T* a, const T* b, std::int64_t ldb, T* c, bool accumulate) {
  p.transpose_a ? tile_product<true>(p.m, p.n, p.k, p.alpha, a, p.lda, b, ldb, c, p.ldc, accumulate)
                : tile_product<false>(p.m, p.n, p.k, p.alpha, a, p.lda, b, ldb, c, p.ldc, accumulate);
}

// Leaves beta c in c, and says whether the product is to be added to it.
template <class T>
bool prepare(const Product<T>& p, T* c) {
  if (p.beta != T(0) && p.beta != T(1))
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) c[i * p.ldc + j] *= p.beta;
  return p.beta != T(0);
}

template <class T>
void pack(const Product<T>& p, const T* b, std::int64_t panel, T* out) {
  const std::int64_t j0 = panel * panel_width, left = p.n - j0, width = left < panel_width ? left : panel_width;
  if (p.transpose_b) return transpose(width, p.k, b + j0 * p.ldb, p.ldb, out, panel_width);
  using V = Vec<T>;
  for (std::int64_t k = 0; k < p.k; ++k, out += panel_width) {
    const T* const from = b + k * p.ldb + j0;
    std::int64_t j = 0;
    for (; j + static_cast<std::int64_t>(V::size) <= width; j += V::size) load<V>(from + j).store_aligned(out + j);
    for (; j < width; ++j) out[j] = from[j];
  }
}

template <class T>
void multiply(const Product<T>& p, const T* a, const T* packed, T* c) {
  const bool add = prepare(p, c);
  // These parts of a and of a panel fit the second cache together.
  constexpr std::int64_t k_part = 512, m_part = 96;
  for (std::int64_t k0 = 0; k0 < p.k; k0 += k_part)
    for (std::int64_t i0 = 0; i0 < p.m; i0 += m_part)
      for (std::int64_t j0 = 0; j0 < p.n; j0 += panel_width) {
        Product<T> part = p;
        part.k = p.k - k0 < k_part ? p.k - k0 : k_part;
        part.m = p.m - i0 < m_part ? p.m - i0 : m_part;
        part.n = p.n - j0 < panel_width ? p.n - j0 : panel_width;
        tile(part, a + (p.transpose_a ? k0 * p.lda + i0 : i0 * p.lda + k0), packed + j0 * p.k + k0 * panel_width,
             panel_width, c + i0 * p.ldc + j0, add || k0 > 0);
      }
}

template <class T>
void small(const Product<T>& p, const T* a, const T* b, T* c, T* scratch) {
  if (as_row(p)) {  // c' = b' op(a)'
    Product<T> row = p;
    row.m = 1;
    row.n = row.ldc = p.m;
    row.transpose_a = !p.transpose_b;
    row.lda = p.ldb;
    const bool add = prepare(row, c);
    if (p.transpose_a) return tile(row, b, a, p.lda, c, add);
    transpose(p.m, p.k, a, p.lda, scratch, p.m);
    return tile(row, b, scratch, p.m, c, add);
  }
  const bool add = prepare(p, c);
  if (!p.transpose_b) return tile(p, a, b, p.ldb, c, add);
  transpose(p.n, p.k, b, p.ldb, scratch, p.n);
  tile(p, a, scratch, p.n, c, add);
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
const ProductKernels<T>& product_table() {
  static constexpr ProductKernels<T> table{pack<T>, multiply<T>, transpose<T>, small<T>, dots<T>};
  return table;
}

template const ProductKernels<float>& product_table<FIT_ISA, float>();
template const ProductKernels<double>& product_table<FIT_ISA, double>();

}  // namespace fit::kernels
