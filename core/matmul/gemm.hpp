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
// - kernels (gemm_kernels*.hpp, .simd.cpp): compute one tile; each instruction set has a table of them.
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

// float and double; gemm_bf16.hpp has BFloat16.
template <class T>
using IfWide = std::enable_if_t<std::is_floating_point_v<T>>;

// On the calling thread.
template <class T, class = IfWide<T>>
void gemm(const GemmParams<T>& p, const T* a, const T* b, T* c);

// A function that is called for each complete tile of c.
using TileDone = FunctionRef<void(std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols)>;
inline constexpr auto no_callback = [](std::int64_t, std::int64_t, std::int64_t, std::int64_t) {};

// One column is computed as a row, c' = op(b)' op(a)', because its elements are contiguous.
template <class T>
bool is_column(const GemmParams<T>& p) {
  return p.n == 1 && p.m > 1 && p.ldc == 1;
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
  std::int64_t count() const { return row_tiles * col_tiles; }
  std::int64_t row(std::int64_t i) const { return i % row_tiles * rows; }
  std::int64_t col(std::int64_t i) const { return i / row_tiles * cols; }
};
// For `threads` threads: few tiles read a and b less often. No tile changes a bit where an element's order of additions
// depends on k alone; elsewhere all numbers of threads have the same tiles, those of 64.
Tiling tiling(std::int64_t m, std::int64_t n, double flops, std::int64_t threads = 64);

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
// Differs for products of one depth, on one processor, that read other panels.
template <class T, class = IfWide<T>>
int panels_form(const GemmParams<T>&) {
  return 0;
}
template <class T, class = IfWide<T>>
std::int64_t panels_bytes(const GemmParams<T>& p);
template <class T, class = IfWide<T>>
void pack_panels(const GemmParams<T>& p, const T* b, void* out);

// Splits the matmul among threads. Adds bias [n] to each row, or nothing if it is null. Calls done(row, rows, col,
// cols) after each tile, while it is in the cache. kept: all panels of op(b) if takes_panels(p), or null.
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
