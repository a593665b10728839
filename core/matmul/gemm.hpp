#pragma once
#include <algorithm>
#include <cstdint>

#include "fit/detail/function_ref.hpp"
#include "fit/threads/parallel.hpp"
#include "matmul/gemm_kernels.hpp"

// Matmul on the CPU: c = alpha op(a) op(b) + beta c. The terms are those of the BLIS papers (Van Zee, van de Geijn
// 2015). The levels, from top to bottom:
//
// - op (core/ops/linalg/matmul.cpp, einsum.cpp): checks shapes, records the gradient, calls gemm_parallel().
// - gemm (gemm.cpp, gemm_bf16.cpp): chooses a route(), splits c into tiles, or a gemv into parts, for the threads.
// - kernels (gemm_kernels*): compute one tile; each instruction set has a table of them.
// - pack (gemm_kernels.simd.cpp, pack_bf16.hpp): copies b into panels of 64 columns, in reading order.
// - gemv (gemv.hpp, gemv_bf16.hpp): 1 … 4 rows (1 … 24 for b'); reads b once, without packing.
// - macro-kernel (macro_kernel.hpp, micro_kernel_bf16.hpp): calls the micro-kernel on blocks that fit the cache.
// - micro-kernel (micro_kernel.simd.cpp, micro_kernel_bf16.hpp): keeps a block of c in registers in the loop over k.
//
// float, double: gemv for few rows, unpacked for small matrices, otherwise packed. With FIT_OPENBLAS=use, OpenBLAS
// (openblas.hpp) computes all but small matrices. bfloat16: native on avx512_bf16 and amx; otherwise packing widens it
// to float.
//
// In the mode Reproducible neither gemv nor OpenBLAS is used. The other kernels add up an element of c in an order
// that depends on k alone: float and double in chains along blocks of kc, one block after another. For few rows,
// gemv_in_order (gemv_in_order.hpp) does so without packing.
namespace fit::kernels {

// Minimum of work for a thread.
constexpr double parallel_flops = 4e5;

// How a matmul is computed.
enum class Route {
  none,  // nothing to multiply: c = beta c
  gemv,  // few rows, for example one token through a layer: limited by reading b, which is read once, not packed
  gemv_in_order,  // the same in Reproducible, in the order of many rows
  unpacked,       // small, or few rows in Reproducible: b is read without packing, by blocks that fit the cache
  packed,         // b is packed into panels, or a if this is less work
  openblas,
};
template <class T>
Route route(const GemmParams<T>& p);

// A gemv of more than `depth` products for an element is computed in parts: one chain of additions would lose digits. A
// chain for b' has the terms of one lane of a vector, another one has all.
template <class T>
std::int64_t gemv_depth(const GemmParams<T>& p) {
  return std::int64_t{1} << (p.transpose_b ? 16 : 12);
}

// float and double; gemm_bf16.hpp has BFloat16.
template <class T>
using IfWide = std::enable_if_t<std::is_floating_point_v<T>>;

// On the calling thread.
template <class T, class = IfWide<T>>
void gemm(const GemmParams<T>& p, const T* a, const T* b, T* c);

// A part of c.
struct Tile {
  std::int64_t row, rows, col, cols;
};
// A function that is called for each complete tile of c.
using TileDone = FunctionRef<void(const Tile&)>;
inline constexpr auto no_callback = [](const Tile&) {};

// Up to 64^3 multiplications, unpacked b fits the L1 cache.
template <class T>
bool is_small(const GemmParams<T>& p) {
  return p.m * p.n * p.k <= std::int64_t{64} * 64 * 64;
}

// One column is computed as a row, c' = op(b)' op(a)', because its elements are contiguous. So is one number, the
// product of long vectors: then b is read as b', by full vectors.
template <class T>
bool is_column(const GemmParams<T>& p) {
  const bool long_vectors = p.m == 1 && !p.transpose_a && !p.transpose_b && !is_small(p);
  return p.n == 1 && p.ldc == 1 && (p.m > 1 || long_vectors);
}

// The product of a column with a and b swapped.
template <class T>
GemmParams<T> as_row(const GemmParams<T>& p) {
  const bool together = p.transpose_b || p.ldb == 1;  // whether the elements of b are contiguous
  GemmParams<T> row = contiguous<T>(1, p.m, p.k, !together, !p.transpose_a);
  if (!together) row.lda = p.ldb;
  row.ldb = p.lda;
  row.alpha = p.alpha;
  row.beta = p.beta;
  return row;
}

// The tiles of c. Consecutive tiles read the same columns of b.
struct Tiling {
  std::int64_t rows, cols;  // of a tile
  std::int64_t row_tiles, col_tiles;
  bool lower = false;  // tiles begin at the diagonal: those that lie above it have no rows
  std::int64_t count() const { return row_tiles * col_tiles; }
  // Tile i of c [m, n].
  Tile tile(std::int64_t i, std::int64_t m, std::int64_t n) const {
    const std::int64_t row = i % row_tiles * rows, col = i / row_tiles * cols, end = std::min(row + rows, m);
    const std::int64_t top = lower ? std::min(std::max(row, col), end) : row;
    return {top, end - top, col, std::min(cols, n - col)};
  }
};
// For `threads` threads: few tiles read a and b less often. No tile changes a bit where an element's order of additions
// depends on k alone; elsewhere all numbers of threads have the same tiles, those of 64.
Tiling tiling(std::int64_t m, std::int64_t n, double flops, std::int64_t threads = 64);

// Whether c is a a' or a' a: symmetric to the bit, because element (i, j) adds up the products of (j, i) in their
// order. Half of the tiles are computed, and mirrored. Two panels of columns have too few tiles to gain by it.
template <class T, class A, class B>
bool is_symmetric(const GemmParams<T>& p, const A* a, const B* b) {
  return std::is_same_v<A, B> && static_cast<const void*>(a) == static_cast<const void*>(b) && p.m == p.n &&
         p.n > 2 * panel_width && p.lda == p.ldb && p.transpose_a != p.transpose_b && p.beta == 0;
}
// The tiles of a symmetric c [n, n]: at least as many as those of `whole`, but narrow, so that little of them lies
// above the diagonal.
Tiling symmetric_tiling(const Tiling& whole, std::int64_t n);
// The part of a tile that lies below its block on the diagonal; it may have no rows.
inline Tile below_diagonal(const Tile& t) {
  const std::int64_t row = std::min(std::max(t.row, t.col + t.cols), t.row + t.rows);
  return {row, t.row + t.rows - row, t.col, t.cols};
}
inline Tile transposed(const Tile& t) { return {t.col, t.cols, t.row, t.rows}; }
// Copies a part of c, transposed, to the other side of the diagonal.
void mirror(const Tile& t, std::int64_t element_size, void* c, std::int64_t ldc);

// Same for few rows, where reading b takes the time: tiles of about 40 microseconds keep all threads busy.
inline Tiling gemv_tiling(std::int64_t m, std::int64_t n, std::int64_t k, std::size_t bytes_of_an_element) {
  const double reading = 8.0 * static_cast<double>(bytes_of_an_element);  // cost of reading, in rows of arithmetic
  return tiling(m, n, 2 * std::max(static_cast<double>(m), reading) * static_cast<double>(n) * static_cast<double>(k));
}

// Calls multiply(part) for the parts of a gemv for transposed b. Threads read at uneven speed, and a part costs time to
// begin: so there are few parts, and the last ones are small.
template <class Multiply>
void gemv_parallel(std::int64_t m, std::int64_t n, std::int64_t k, std::size_t bytes_of_an_element,
                   const Multiply& multiply) {
  const std::int64_t tiles = gemv_tiling(m, n, k, bytes_of_an_element).count();
  parallel_for(Part::units, (Part::units + tiles - 1) / tiles, guided_schedule,
               [&](std::int64_t begin, std::int64_t end) {
                 multiply(Part{begin, end});
               });
}

// Packs all panels of op(b), one after another.
template <class T>
void pack_b_panels(const GemmParams<T>& p, const T* b, T* out);

// The rows of op(b) that are packed at once, a multiple of kc. A part of a large b stays in the cache and takes little
// memory. A part has more rows than c, so that reading and writing c once more for each part costs little.
template <class T>
std::int64_t packed_depth(const GemmParams<T>& p);

// Whether gemm_parallel() would read panels of op(b) that are packed already: those that pack_panels() writes.
template <class T, class = IfWide<T>>
bool takes_panels(const GemmParams<T>& p);
// Whether these are in the layout for few rows, which only BFloat16 has.
template <class T, class = IfWide<T>>
bool takes_row_panels(const GemmParams<T>&) {
  return false;
}
template <class T, class = IfWide<T>>
std::int64_t panels_bytes(const GemmParams<T>& p);
template <class T, class = IfWide<T>>
void pack_panels(const GemmParams<T>& p, const T* b, void* out);

// Splits the matmul among threads. Adds bias [n] to each row, or nothing if it is null. Calls done(tile) after each
// tile, while it is in the cache. kept: all panels of op(b) if takes_panels(p), or null.
template <class T, class = IfWide<T>>
void gemm_parallel(const GemmParams<T>& p, const T* a, const T* b, T* c, const T* bias = nullptr,
                   TileDone done = no_callback, const void* kept = nullptr);

// `count` matmuls of equal shape; pointers(i, a, b, c) sets the pointers of matmul i: const A*, const B* and C*.
template <class A, class B, class C, class P>
void gemm_batched(const GemmParams<P>& p, std::int64_t count,
                  FunctionRef<void(std::int64_t i, const A*& a, const B*& b, C*& c)> pointers) {
  const auto one = [&](std::int64_t i, bool split) {
    const A* a = nullptr;
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
