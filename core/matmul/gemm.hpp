#pragma once
#include <algorithm>
#include <cstdint>

#include "base/scratch.hpp"
#include "fit/parallel.hpp"
#include "matmul/gemm_kernels.hpp"
#include "matmul/gemm_limbs.hpp"

// Matmul on the CPU: c = alpha op(a) op(b) + beta c. The terms are those of the BLIS papers (Van Zee, van de Geijn
// 2015). The levels, from top to bottom:
//
// - op (core/ops/matmul.cpp, einsum.cpp, int8.cpp): checks shapes, records the gradient, calls gemm_parallel().
// - gemm (gemm.hpp, gemm_limbs.hpp, gemm_bf16.hpp, gemm_int8.hpp): chooses a route(), splits c into tiles for the
//   threads.
// - kernels (gemm_kernels*.hpp, .simd.cpp): compute one tile; each instruction set has a table of them.
// - pack (gemm_kernels.simd.cpp, pack_bf16.hpp): copies b into panels of 64 columns, in reading order.
// - gemv (gemv.hpp, gemv_bf16.hpp): 1 … 4 rows (1 … 24 for b'); reads b once, without packing.
// - macro-kernel (micro_kernel.hpp, micro_kernel_bf16.hpp): calls the micro-kernel on blocks that fit the cache.
// - micro-kernel (same files): keeps one block of c in registers during the loop over k.
//
// float, double: gemv for few rows, unpacked for small matrices, otherwise packed. Without AVX2, OpenBLAS
// (openblas.hpp) computes all but small matrices. bfloat16: native on avx512_bf16 and amx; otherwise packing widens it
// to float. Large products of float on amx go by limbs (gemm_limbs.hpp): each float is split into three bfloat16. int8
// weights: gemv reads them directly; for more rows, blocks of weights are widened first.
//
// In the mode BatchInvariant neither gemv nor OpenBLAS is used. The other kernels add up an element of c in an order
// that depends on k alone: float and double in chains along blocks of kc, one block after another. For few rows,
// gemv_in_order (gemv_in_order.hpp) does so without packing.
namespace fit::kernels {

// How a matmul is computed.
enum class Route {
  empty,     // nothing to do
  no_terms,  // k = 0: c = beta c
  column,    // one column: computed as a row, c' = op(b)' op(a)', because its elements are contiguous
  gemv,      // few rows, for example one token through a layer: limited by reading b, which is read once, not packed
  gemv_in_order,  // the same in BatchInvariant, in the order of many rows
  unpacked,       // small, or few rows in BatchInvariant: b is read without packing, by blocks that fit the cache
  packed,         // b is packed into panels
  swapped,  // packed, for c = alpha a b' with b larger than a and c (weights and a small batch): c' = alpha b a' reads
            // b directly; a is packed and c transposed instead
  limbs,    // split into BFloat16, with AMX: as exact as floats, and faster
  openblas,
};
template <class T>
Route route(const GemmParams<T>& p);

// float and double; gemm_bf16.hpp has BFloat16.
template <class T>
using IfWide = std::enable_if_t<std::is_floating_point_v<T>>;

// On the calling thread.
template <class T, class = IfWide<T>>
void gemm(const GemmParams<T>& p, const T* a, const T* b, T* c);

// The matmul of Route::column with a and b swapped.
template <class T>
GemmParams<T> as_row(const GemmParams<T>& p) {
  const bool together = p.transpose_b || p.ldb == 1;  // whether the elements of b are contiguous
  GemmParams<T> row;
  row.m = 1;
  row.n = p.m;
  row.k = p.k;
  row.transpose_a = !together;
  row.transpose_b = !p.transpose_a;
  row.lda = together ? p.k : p.ldb;
  row.ldb = p.lda;
  row.ldc = p.m;
  row.alpha = p.alpha;
  row.beta = p.beta;
  return row;
}

// The tiles of c. They depend on its shape only, so that results don't depend on the number of threads. Consecutive
// tiles read the same columns of b.
struct Tiling {
  std::int64_t rows, cols;  // of a tile
  std::int64_t row_tiles, col_tiles;
  std::int64_t count() const { return row_tiles * col_tiles; }
  std::int64_t row(std::int64_t i) const { return i % row_tiles * rows; }
  std::int64_t col(std::int64_t i) const { return i / row_tiles * cols; }
};
Tiling tiling(std::int64_t m, std::int64_t n, double flops);

// Same for few rows, where reading b takes the time: tiles of about 40 microseconds keep all threads busy.
inline Tiling gemv_tiling(std::int64_t m, std::int64_t n, std::int64_t k, std::size_t bytes_of_an_element) {
  const double reading = 8.0 * static_cast<double>(bytes_of_an_element);  // cost of reading, in rows of arithmetic
  return tiling(m, n, 2 * std::max(static_cast<double>(m), reading) * static_cast<double>(n) * static_cast<double>(k));
}

// Packs all panels of op(b), one after another.
template <class T>
void pack_b_panels(const GemmParams<T>& p, const T* b, T* out) {
  const auto& kernels = FIT_KERNELS(gemm_table, T);
  parallel_for(panels(p.n), (1 << 15) / (panel_width * p.k) + 1, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) kernels.pack_b(p, b, i, out + i * panel_width * p.k);
  });
}

// Route::swapped: computes tiles of c' and transposes them into c.
template <class T, class Done>
void gemm_swapped(const GemmParams<T>& p, const T* a, const T* b, T* c, const Done& done) {
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
      kernels.gemm_packed(part, b + i * rows * p.ldb, packed.get(), tile.get(), static_cast<T*>(nullptr));
      kernels.transpose(part.m, p.m, tile.get(), p.m, c + i * rows, p.ldc);
      done(std::int64_t{0}, p.m, i * rows, part.m);
    }
  });
}

// The tiles of c. all_panels: those of op(b) if `way` is Route::packed.
template <class T, class Done>
void gemm_tiles(const GemmParams<T>& p, const Tiling& t, Route way, const T* a, const T* b, const T* all_panels, T* c,
                const Done& done) {
  const auto& kernels = FIT_KERNELS(gemm_table, T);
  parallel_for(t.count(), 1, dynamic_schedule, [&](std::int64_t begin, std::int64_t end) {
    const Scratch<T> rows(way == Route::packed ? gemm_packed_scratch(p) : 0);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = t.row(i), col = t.col(i);
      GemmParams<T> part = p;
      part.m = p.m - row < t.rows ? p.m - row : t.rows;
      part.n = p.n - col < t.cols ? p.n - col : t.cols;
      const T* const part_a = a + row * (p.transpose_a ? 1 : p.lda);
      const T* const part_b = b + col * (p.transpose_b ? p.ldb : 1);
      T* const part_c = c + row * p.ldc + col;
      if (way == Route::packed)
        kernels.gemm_packed(part, part_a, all_panels + col * p.k, part_c, rows.get());
      else if (way == Route::gemv)
        kernels.gemv(part, part_a, part_b, part_c);
      else
        gemm(part, part_a, part_b, part_c);
      done(row, part.m, col, part.n);
    }
  });
}

// The rows of op(b) that are packed at once, a multiple of kc. A part of a large b stays in the cache and takes little
// memory. A part has more rows than c, so that reading and writing c once more for each part costs little.
template <class T>
std::int64_t packed_depth(const GemmParams<T>& p) {
  constexpr std::int64_t elements = std::int64_t{1} << 21;
  const std::int64_t kc = FIT_KERNELS(gemm_table, T).kc, wanted = std::max(elements / p.n, 4 * p.m);
  return std::min(p.k, (wanted + kc - 1) / kc * kc);
}

// kept: all panels of op(b), or null.
template <class T, class Done>
void gemm_tiled(const GemmParams<T>& p, Route way, const T* a, const T* b, const T* kept, T* c, const Done& done) {
  const bool few_rows = way == Route::gemv || way == Route::gemv_in_order ||
                        ((way == Route::unpacked || kept) && p.m <= gemv_max_m_transposed);
  const Tiling t = few_rows ? gemv_tiling(p.m, p.n, p.k, sizeof(T)) : tiling(p.m, p.n, p.flops());
  if (way != Route::packed || kept) return gemm_tiles(p, t, way, a, b, kept, c, done);
  const std::int64_t depth = packed_depth(p);
  const Scratch<T> packed(panels(p.n) * panel_width * depth);
  GemmParams<T> part = p;
  for (std::int64_t k0 = 0; k0 < p.k; k0 += depth) {
    part.k = std::min(depth, p.k - k0);
    part.beta = k0 > 0 ? 1 : p.beta;
    pack_b_panels(part, b + k0 * (p.transpose_b ? 1 : p.ldb), packed.get());
    gemm_tiles(part, t, way, a + k0 * (p.transpose_a ? p.lda : 1), b, packed.get(), c, [&](auto... tile) {
      if (k0 + depth >= p.k) done(tile...);
    });
  }
}

// Whether the product goes by limbs, and reads panels of limbs.
template <class T>
bool by_limbs(const GemmParams<T>& p) {
  if constexpr (std::is_same_v<T, float>)
    return route(p) == Route::limbs;
  else
    return false;
}

// Whether gemm_parallel() would read panels of op(b) that are packed already: those that pack_panels() writes.
template <class T>
bool takes_panels(const GemmParams<T>& p) {
  const Route way = route(p);
  return p.m > gemv_max_m &&
         (way == Route::gemv || way == Route::packed || way == Route::swapped || way == Route::limbs);
}
template <class T>
std::int64_t panels_bytes(const GemmParams<T>& p) {
  if (by_limbs(p)) return 2 * LimbsB(p, nullptr, nullptr).packed_size(p.n, p.k);
  return panels(p.n) * panel_width * p.k * static_cast<std::int64_t>(sizeof(T));
}
template <class T>
void pack_panels(const GemmParams<T>& p, const T* b, void* out) {
  if constexpr (std::is_same_v<T, float>)
    if (by_limbs(p)) return pack_bf16(LimbsB(p, b, nullptr), Bf16Loop::threads, p.k, static_cast<BFloat16*>(out));
  pack_b_panels(p, b, static_cast<T*>(out));
}

// Splits the matmul among threads. Calls done(row, rows, col, cols) after each tile, while it is in the cache. kept:
// all panels of op(b) if takes_panels(p), or null.
template <class T, class Done, class = IfWide<T>>
void gemm_parallel(const GemmParams<T>& p, const T* a, const T* b, T* c, const Done& done, const void* kept = nullptr) {
  const Route way = route(p);
  const auto* const floats = static_cast<const T*>(kept);
  if constexpr (std::is_same_v<T, float>)
    if (way == Route::limbs) return gemm_limbs(p, a, b, c, static_cast<const BFloat16*>(kept), gemm<float>, done);
  if (kept) return gemm_tiled(p, Route::packed, a, b, floats, c, done);
  if (way == Route::swapped) return gemm_swapped(p, a, b, c, done);
  if (way != Route::column) return gemm_tiled(p, way, a, b, floats, c, done);
  const GemmParams<T> row = as_row(p);
  gemm_tiled(row, route(row), b, a, floats, c,
             [&](std::int64_t i, std::int64_t m, std::int64_t j, std::int64_t n) { done(j, n, i, m); });
}

template <class T, class A, class B, class C>
void gemm_parallel(const GemmParams<T>& p, const A* a, const B* b, C* c) {
  gemm_parallel(p, a, b, c, [](std::int64_t, std::int64_t, std::int64_t, std::int64_t) {});
}

// `count` matmuls of equal shape; pointers(i, a, b, c) sets the pointers of matmul i: const T*, const B* and C*.
template <class T, class B = T, class C = T, class P, class Pointers>
void gemm_batched(const GemmParams<P>& p, std::int64_t count, const Pointers& pointers) {
  const auto one = [&](std::int64_t i, bool split) {
    const T* a = nullptr;
    const B* b = nullptr;
    C* c = nullptr;
    pointers(i, a, b, c);
    split ? gemm_parallel(p, a, b, c) : gemm(p, a, b, c);
  };
  // Splits each of a few large products; distributes many products without splitting them.
  const bool split = count < 8 && p.flops() > 16 * parallel_flops;
  const auto grain = static_cast<std::int64_t>(parallel_flops / (p.flops() + 1)) + 1;
  if (split)
    for (std::int64_t i = 0; i < count; ++i) one(i, true);
  else
    parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) one(i, false);
    });
}

}  // namespace fit::kernels
