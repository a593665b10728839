#include "kernels/product.hpp"

#include "kernels/simd/for_each_vector.hpp"
#include "kernels/simd/tile_product.hpp"
#include "kernels/simd/transpose.hpp"

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

// The rows of x, with out_ld from one to the next.
template <class T>
const T* copy_rows(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, T* out, std::int64_t out_ld) {
  using V = Vec<T>;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* const from = x + r * ld;
    T* const to = out + r * out_ld;
    std::int64_t j = 0;
    for (; j + static_cast<std::int64_t>(V::size) <= cols; j += V::size) load<V>(from + j).store_unaligned(to + j);
    if (j < cols) store_part(load_part<V>(from + j, cols - j), to + j, cols - j);
  }
  return out;
}

template <class T>
void pack(const Product<T>& p, const T* b, std::int64_t panel, T* out) {
  const std::int64_t j0 = panel * panel_width, left = p.n - j0, width = left < panel_width ? left : panel_width;
  if (p.transpose_b) return transpose(width, p.k, b + j0 * p.ldb, p.ldb, out, panel_width);
  copy_rows(p.k, width, b + j0, p.ldb, out, panel_width);
}

template <class T>
void multiply(const Product<T>& p, const T* a, const T* packed, T* c, T* scratch) {
  const bool add = prepare(p, c);
  for (std::int64_t k0 = 0; k0 < p.k; k0 += k_part)
    for (std::int64_t i0 = 0; i0 < p.m; i0 += m_part) {
      Product<T> part = p;
      part.k = p.k - k0 < k_part ? p.k - k0 : k_part;
      part.m = p.m - i0 < m_part ? p.m - i0 : m_part;
      const T* part_a = a + (p.transpose_a ? k0 * p.lda + i0 : i0 * p.lda + k0);
      if (copies_a(p)) {
        part_a = copy_rows(part.k, part.m, part_a, p.lda, scratch, part.m);
        part.lda = part.m;
      }
      for (std::int64_t j0 = 0; j0 < p.n; j0 += panel_width) {
        part.n = p.n - j0 < panel_width ? p.n - j0 : panel_width;
        tile(part, part_a, packed + j0 * p.k + k0 * panel_width, panel_width, c + i0 * p.ldc + j0, add || k0 > 0);
      }
    }
}

template <class T>
void small(const Product<T>& p, const T* a, const T* b, T* c, T* scratch) {
  const bool add = prepare(p, c);
  if (!p.transpose_b) return tile(p, a, b, p.ldb, c, add);
  transpose(p.n, p.k, b, p.ldb, scratch, p.n);
  tile(p, a, scratch, p.n, c, add);
}

// M rows of c and R columns: every vector of b that is read serves all rows of a. U sums side by side for each, so that
// additions don't wait for one another. Few rows of b at a time: memory is read fastest in few streams.
template <int M, int R, int U, class T>
void dots_of(const Product<T>& p, const T* a, const T* b, T* c) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  V sum[R][M][U];
  FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int u = 0; u < U; ++u)
      sum[r][i][u] = V(T(0));
  const auto add = [&](int u, auto get) {
    V x[M];
    FIT_UNROLL for (int i = 0; i < M; ++i) x[i] = get(a + i * p.lda);
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      const V w = get(b + r * p.ldb);
      FIT_UNROLL for (int i = 0; i < M; ++i) sum[r][i][u] = sum[r][i][u] + x[i] * w;
    }
  };
  std::int64_t k = 0;
  for (; k + U * W <= p.k; k += U * W)
    FIT_UNROLL for (int u = 0; u < U; ++u) add(u, [k, u](const T* at) { return load<V>(at + k + u * W); });
  for (; k + W <= p.k; k += W) add(0, [k](const T* at) { return load<V>(at + k); });
  if (k < p.k) add(0, [&p, k](const T* at) { return load_part<V>(at + k, p.k - k); });
  FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) {
    FIT_UNROLL for (int u = 1; u < U; ++u) sum[r][i][0] = sum[r][i][0] + sum[r][i][u];
    T& to = c[i * p.ldc + r];
    to = p.alpha * sum_lanes(sum[r][i][0]) + (p.beta == T(0) ? T(0) : p.beta * to);
  }
}

template <int M, class T>
void dots_of_rows(const Product<T>& p, const T* a, const T* b, T* c) {
  constexpr int U = M <= 2 ? 2 : 1;
  std::int64_t j = 0;
  for (; j + 2 <= p.n; j += 2) dots_of<M, 2, U>(p, a, b + j * p.ldb, c + j);
  if (j < p.n) dots_of<M, 1, U>(p, a, b + j * p.ldb, c + j);
}

// c (+)= the next R rows of b, times R columns of a: c stays in the cache, and b is read in R streams.
template <int M, int R, class T>
void add_rows(const Product<T>& p, std::int64_t k, const T* a, const T* b, T* c, bool add) {
  using V = Vec<T>;
  V x[R][M];
  FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) x[r][i] =
      V(p.alpha * a[i * p.lda + k + r]);
  for_each_vector<V>(p.n, [&](std::int64_t j, auto access, int) {
    V sum[M];
    FIT_UNROLL for (int i = 0; i < M; ++i) sum[i] = add ? access.template load<V>(c + i * p.ldc + j, T(0)) : V(T(0));
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      const V w = access.template load<V>(b + (k + r) * p.ldb + j, T(0));
      FIT_UNROLL for (int i = 0; i < M; ++i) sum[i] = sum[i] + x[r][i] * w;
    }
    FIT_UNROLL for (int i = 0; i < M; ++i) access.store(sum[i], c + i * p.ldc + j);
  });
}

template <int M, class T>
void small_m_of(const Product<T>& p, const T* a, const T* b, T* c) {
  if (p.transpose_b) return dots_of_rows<M>(p, a, b, c);
  const bool add = prepare(p, c);
  std::int64_t k = 0;
  for (; k + 4 <= p.k; k += 4) add_rows<M, 4>(p, k, a, b, c, add || k > 0);
  for (; k < p.k; ++k) add_rows<M, 1>(p, k, a, b, c, add || k > 0);
}

template <class T>
void small_m(const Product<T>& p, const T* a, const T* b, T* c) {
  switch (p.m) {
    case 1:
      return small_m_of<1>(p, a, b, c);
    case 2:
      return small_m_of<2>(p, a, b, c);
    case 3:
      return small_m_of<3>(p, a, b, c);
    case 4:
      return small_m_of<4>(p, a, b, c);
    default:
      return;
  }
}

}  // namespace

template <class IsaTag, class T>
const ProductKernels<T>& product_table() {
  static constexpr ProductKernels<T> table{pack<T>, multiply<T>, transpose<T>, small<T>, small_m<T>};
  return table;
}

template const ProductKernels<float>& product_table<FIT_ISA, float>();
template const ProductKernels<double>& product_table<FIT_ISA, double>();

}  // namespace fit::kernels
