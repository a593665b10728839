#include "matmul/gemm.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/scratch.hpp"
#include "fit/matmul/reproducible.hpp"
#include "kernels/copy.hpp"
#include "matmul/openblas.hpp"

namespace fit::kernels {

namespace {

// Whether c = alpha a b' with b larger than a and c (weights and a small batch) is computed as c' = alpha b a': b is
// read directly; a is packed and c transposed instead.
template <class T>
bool swaps(const GemmParams<T>& p) {
  return p.transpose_b && !p.transpose_a && p.beta == T(0) && p.m * (p.n + p.k) < p.n * p.k;
}

// Calls f(part, k0, last) for the parts of a gemv along k, each added to c.
template <class T, class F>
void each_depth(const GemmParams<T>& p, const F& f) {
  GemmParams<T> part = p;
  for (std::int64_t k0 = 0; k0 < p.k; k0 += part.k) {
    part.k = std::min(gemv_depth(p), p.k - k0);
    part.beta = k0 > 0 ? T(1) : p.beta;
    f(part, k0, k0 + part.k == p.k);
  }
}

// Route::gemv on the calling thread.
template <class T>
void gemv(const GemmParams<T>& p, const T* a, const T* b, T* c) {
  const auto& kernels = FIT_KERNELS(gemm_table, T);
  if (p.k <= gemv_depth(p)) return kernels.gemv(p, a, b, c);
  const Scratch<T> sums(p.m * p.n);
  each_depth(p, [&](GemmParams<T> part, std::int64_t k0, bool) {
    const T before = std::exchange(part.beta, T(0));
    part.ldc = p.n;
    kernels.gemv(part, a + k0, b + k0 * (p.transpose_b ? 1 : p.ldb), sums.get());
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        T& to = c[i * p.ldc + j];
        to = sums.get()[i * p.n + j] + (before == 0 ? T(0) : before * to);
      }
  });
}

}  // namespace

template <class T>
Route route(const GemmParams<T>& p) {
  const bool small = is_small(p);
  if (p.m == 0 || p.n == 0 || p.k == 0) return Route::none;
  if (reproducible() && p.m <= gemv_in_order_max_m && p.transpose_b && !p.transpose_a && p.alpha == 1 && p.beta == 0)
    return Route::gemv_in_order;
  if (reproducible()) return small || p.m <= gemv_max_m_transposed ? Route::unpacked : Route::packed;
  if (p.m <= gemv_max_m && !p.transpose_a && (p.transpose_b || !small)) return Route::gemv;
  if (small) return Route::unpacked;
  if (openblas_computes()) return Route::openblas;
  if (p.m <= gemv_max_m_transposed && p.transpose_b && !p.transpose_a) return Route::gemv;
  return Route::packed;
}

template <class T, class>
void gemm(const GemmParams<T>& p, const T* a, const T* b, T* c) {
  if (is_column(p)) return gemm(as_row(p), b, a, c);
  const auto& kernels = FIT_KERNELS(gemm_table, T);
  switch (route(p)) {
    case Route::none:
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) c[i * p.ldc + j] = p.beta == 0 ? T(0) : p.beta * c[i * p.ldc + j];
      return;
    case Route::gemv:
      return gemv(p, a, b, c);
    case Route::gemv_in_order:
      return kernels.gemv_in_order(p, a, b, c);
    case Route::unpacked: {
      const Scratch<T> scratch(gemm_unpacked_scratch(p));
      return kernels.gemm_unpacked(p, a, b, c, scratch.get());
    }
    case Route::packed: {
      const Scratch<T> packed(panels(p.n) * panel_width * p.k), rows(gemm_packed_scratch(p));
      for (std::int64_t i = 0; i < panels(p.n); ++i) kernels.pack_b(p, b, i, packed.get() + i * panel_width * p.k);
      return kernels.gemm_packed(p, a, {packed.get()}, c, rows.get());
    }
    case Route::openblas:
      return openblas_gemm(p, a, b, c);
  }
}

Tiling tiling(std::int64_t m, std::int64_t n, double flops, std::int64_t threads) {
  // A tile takes some tens of microseconds or more. Their number is a power of two if the shape allows it: so the tiles
  // are even for 2, 4, … 64 threads. Four for each of them are enough; another number of threads needs more.
  const bool even = (threads & (threads - 1)) == 0;
  const std::int64_t most = even ? std::clamp<std::int64_t>(4 * threads, 8, 64) : 64;
  std::int64_t wanted = 1;
  while (wanted < most && flops >= 20 * parallel_flops * static_cast<double>(wanted)) wanted *= 2;
  const auto parts = [](std::int64_t size, std::int64_t part) { return (size + part - 1) / part; };
  const auto cut = [&](std::int64_t size, std::int64_t count, std::int64_t multiple) {
    return std::max<std::int64_t>(parts(parts(size, count), multiple) * multiple, multiple);
  };
  // Up to 256 columns: the tile and its parts of a and b fit the L2 cache. Few rows read b only once, so the columns
  // are not split for the cache.
  const std::int64_t least_col_parts = m <= gemv_max_m_transposed || n <= 256 ? 1 : parts(n, 256);
  if (m > 0 && n > 0 && wanted * least_col_parts == 1) return {m, n, 1, 1};  // without a division
  Tiling best{};
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t r = 1; r == 1 || (r <= wanted && 48 * r <= m); r *= 2) {
    Tiling t{};
    t.rows = cut(m, r, 6);
    t.cols = cut(n, std::max(wanted / r, least_col_parts), panel_width);
    t.row_tiles = parts(m, t.rows);
    t.col_tiles = parts(n, t.cols);
    // The time of `wanted` threads. To read a number of a or b takes that of 16 multiply-adds.
    const std::int64_t cost = parts(t.count(), wanted) * (t.rows * t.cols + 16 * (t.rows + t.cols));
    if (cost < least) least = cost, best = t;
  }
  return best;
}

Tiling symmetric_tiling(const Tiling& whole, std::int64_t n) {
  Tiling t = whole;
  t.lower = true;
  t.cols = std::clamp<std::int64_t>(panels(n) / 8, 1, 4) * panel_width;
  t.col_tiles = (n + t.cols - 1) / t.cols;
  const std::int64_t wanted = (whole.count() + t.col_tiles - 1) / t.col_tiles, rows = (n + wanted - 1) / wanted;
  t.rows = (rows + 5) / 6 * 6;
  t.row_tiles = (n + t.rows - 1) / t.rows;
  return t;
}

void mirror(const Tile& t, std::int64_t element_size, void* c, std::int64_t ldc) {
  if (t.rows == 0 || t.cols == 0) return;
  const auto at = [&](std::int64_t row, std::int64_t col) {
    return static_cast<Byte*>(c) + element_size * (row * ldc + col);
  };
  copy(Shape{t.cols, t.rows}, element_size, at(t.col, t.row), {ldc, 1}, at(t.row, t.col), {1, ldc});
}

template <class T>
void pack_b_panels(const GemmParams<T>& p, const T* b, T* out) {
  const auto& kernels = FIT_KERNELS(gemm_table, T);
  parallel_for(panels(p.n), (1 << 15) / (panel_width * p.k) + 1, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) kernels.pack_b(p, b, i, out + i * panel_width * p.k);
  });
}

namespace {

// Computes tiles of c' and transposes them into c, if swaps(p).
template <class T>
void gemm_swapped(const GemmParams<T>& p, const T* a, const T* b, T* c, TileDone done) {
  GemmParams<T> swapped;  // c' = alpha b a'
  swapped.m = p.n;
  swapped.n = p.m;
  swapped.k = p.k;
  swapped.transpose_b = true;
  swapped.lda = p.ldb;
  swapped.ldb = p.lda;
  swapped.ldc = p.m;
  swapped.alpha = p.alpha;
  const Scratch<T> packed(panels(p.m) * panel_width * p.k);
  pack_b_panels(swapped, a, packed.get());
  const auto& kernels = FIT_KERNELS(gemm_table, T);
  constexpr std::int64_t rows = 96;  // of b, in a tile
  parallel_for((p.n + rows - 1) / rows, 1, dynamic_schedule, [&](std::int64_t i, std::int64_t end) {
    const Scratch<T> tile(rows * p.m);
    for (; i < end; ++i) {
      GemmParams<T> part = swapped;
      part.m = p.n - i * rows < rows ? p.n - i * rows : rows;
      kernels.gemm_packed(part, b + i * rows * p.ldb, {packed.get()}, tile.get(), nullptr);
      kernels.transpose(part.m, p.m, tile.get(), p.m, c + i * rows, p.ldc);
      done({0, p.m, i * rows, part.m});
    }
  });
}

// The tiles of c. packed: op(b) if `way` is Route::packed.
template <class T>
void gemm_tiles(const GemmParams<T>& p, const Tiling& t, Route way, const T* a, const T* b, const PackedB<T>& packed,
                T* c, TileDone done) {
  const auto& kernels = FIT_KERNELS(gemm_table, T);
  parallel_for(t.count(), 1, dynamic_schedule, [&](std::int64_t begin, std::int64_t end) {
    const Scratch<T> rows(way == Route::packed ? gemm_packed_scratch(p) : 0);
    for (std::int64_t i = begin; i < end; ++i) {
      const Tile tile = t.tile(i, p.m, p.n);
      if (tile.rows == 0) continue;
      const std::int64_t row = tile.row, col = tile.col;
      GemmParams<T> part = p;
      part.m = tile.rows;
      part.n = tile.cols;
      const T* const part_a = a + row * (p.transpose_a ? 1 : p.lda);
      const T* const part_b = b + col * (p.transpose_b ? p.ldb : 1);
      T* const part_c = c + row * p.ldc + col;
      if (way == Route::packed)
        kernels.gemm_packed(part, part_a,
                            {packed.panels + col * p.k, packed.kept, packed.bias ? packed.bias + col : nullptr}, part_c,
                            rows.get());
      else if (way == Route::gemv)
        gemv(part, part_a, part_b, part_c);
      else
        gemm(part, part_a, part_b, part_c);
      done(tile);
    }
  });
}

}  // namespace

template <class T>
std::int64_t packed_depth(const GemmParams<T>& p) {
  constexpr std::int64_t elements = std::int64_t{1} << 21;
  const std::int64_t kc = FIT_KERNELS(gemm_table, T).kc, wanted = std::max(elements / p.n, 4 * p.m);
  return std::min(p.k, (wanted + kc - 1) / kc * kc);
}

namespace {

// kept: all panels of op(b), or null. bias: null, unless `way` is Route::packed.
template <class T>
void gemm_tiled(const GemmParams<T>& p, Route way, const T* a, const T* b, const T* kept, T* c, const T* bias,
                TileDone done) {
  const bool few_rows = way == Route::gemv || way == Route::gemv_in_order ||
                        ((way == Route::unpacked || kept) && p.m <= gemv_max_m_transposed);
  Tiling t = few_rows               ? gemv_tiling(p.m, p.n, p.k, sizeof(T))
             : way == Route::packed ? tiling(p.m, p.n, p.flops(), num_threads())
                                    : tiling(p.m, p.n, p.flops());
  if (way == Route::packed && !kept && !bias && is_symmetric(p, a, b)) t = symmetric_tiling(t, p.n);
  if (way != Route::packed || kept) return gemm_tiles(p, t, way, a, b, {kept, true, bias}, c, done);
  const std::int64_t depth = packed_depth(p);
  const Scratch<T> packed(panels(p.n) * panel_width * depth);
  GemmParams<T> part = p;
  for (std::int64_t k0 = 0; k0 < p.k; k0 += depth) {
    part.k = std::min(depth, p.k - k0);
    part.beta = k0 > 0 ? 1 : p.beta;
    pack_b_panels(part, b + k0 * (p.transpose_b ? 1 : p.ldb), packed.get());
    const bool last = k0 + depth >= p.k;
    gemm_tiles(part, t, way, a + k0 * (p.transpose_a ? p.lda : 1), b, {packed.get(), false, last ? bias : nullptr}, c,
               [&](const Tile& tile) {
                 if (!last) return;
                 const Tile below = t.lower ? below_diagonal(tile) : Tile{};
                 mirror(below, sizeof(T), c, p.ldc);
                 done(tile);
                 if (below.rows > 0) done(transposed(below));
               });
  }
}

}  // namespace

template <class T, class>
bool takes_panels(const GemmParams<T>& p) {
  if (is_column(p)) return false;
  switch (const Route way = route(p)) {
    case Route::gemv:
      return p.m > gemv_max_m;
    case Route::gemv_in_order:
      return true;  // a row takes the time of reading them, and has no blocks to transpose
    case Route::unpacked:
      return reproducible() && !is_small(p);
    default:
      return way == Route::packed;
  }
}

template <class T, class>
std::int64_t panels_bytes(const GemmParams<T>& p) {
  return panels(p.n) * panel_width * p.k * static_cast<std::int64_t>(sizeof(T));
}

template <class T, class>
void pack_panels(const GemmParams<T>& p, const T* b, void* out) {
  pack_b_panels(p, b, static_cast<T*>(out));
}

template <class T, class>
void gemm_parallel(const GemmParams<T>& p, const T* a, const T* b, T* c, const T* bias, TileDone done,
                   const void* kept) {
  const auto* const all_panels = static_cast<const T*>(kept);
  const auto add_row = FIT_KERNELS(gemm_table, T).add_row;
  const auto biased = [&](const Tile& t) {
    if (bias) add_row(t.rows, t.cols, bias + t.col, c + t.row * p.ldc + t.col, p.ldc);
    done(t);
  };
  if (is_column(p)) {
    const GemmParams<T> row = as_row(p);
    return gemm_tiled<T>(row, route(row), b, a, nullptr, c, nullptr, [&](const Tile& t) { biased(transposed(t)); });
  }
  if (kept) return gemm_tiled(p, Route::packed, a, b, all_panels, c, bias, done);
  const Route way = route(p);
  if (way == Route::gemv && p.transpose_b && p.m <= gemv_max_m)
    return each_depth(p, [&](const GemmParams<T>& deep, std::int64_t k0, bool last) {
      gemv_parallel(p.m, p.n, deep.k, sizeof(T), [&](Part part) {
        FIT_KERNELS(gemm_table, T).gemv_part(deep, a + k0, b + k0, c, part, [&](std::int64_t col, std::int64_t cols) {
          if (last) biased({0, p.m, col, cols});
        });
      });
    });
  if (way == Route::packed && swaps(p)) return gemm_swapped(p, a, b, c, biased);
  if (way == Route::packed) return gemm_tiled<T>(p, way, a, b, nullptr, c, bias, done);
  gemm_tiled<T>(p, way, a, b, nullptr, c, nullptr, biased);
}

#define FIT_GEMM(T)                                                 \
  template Route route(const GemmParams<T>&);                       \
  template void gemm(const GemmParams<T>&, const T*, const T*, T*); \
  template void pack_b_panels(const GemmParams<T>&, const T*, T*);  \
  template std::int64_t packed_depth(const GemmParams<T>&);         \
  template bool takes_panels(const GemmParams<T>&);                 \
  template std::int64_t panels_bytes(const GemmParams<T>&);         \
  template void pack_panels(const GemmParams<T>&, const T*, void*); \
  template void gemm_parallel(const GemmParams<T>&, const T*, const T*, T*, const T*, TileDone, const void*);
FIT_GEMM(float)
FIT_GEMM(double)
#undef FIT_GEMM

}  // namespace fit::kernels
