#pragma once
#include <cstdint>

#include "base/acc_type.hpp"
#include "fit/detail/function_ref.hpp"
#include "kernels/simd/isa.hpp"
#include "kernels/simd/reference.hpp"

// The kernels of matmul, compiled for each instruction set; gemm.hpp selects them and splits the work among threads.
// Rounded by operation, with at least 1 chain of additions along k: (k + 6) / 2 units in the last place of the sum of
// |a b|, times alpha. Packing and transposing are exact.
namespace fit::kernels {

// c [m, n] = alpha op(a) op(b) + beta c, row-major. lda, ldb, ldc are the row strides of the matrices in memory: a is
// [m, k], or [k, m] if transposed; b is [k, n], or [n, k]. c is not read if beta = 0.
template <class T>
struct GemmParams {
  GemmParams() {}
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  AccT<T> alpha = 1, beta = 0;

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// alpha 1, beta 0, contiguous matrices.
template <class T>
GemmParams<T> contiguous(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b) {
  GemmParams<T> p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.transpose_a = transpose_a;
  p.transpose_b = transpose_b;
  p.lda = transpose_a ? m : k;
  p.ldb = transpose_b ? k : n;
  p.ldc = n;
  return p;
}

// b is packed into panels of this many columns, each k panel_width elements. A panel has a part for each kc rows, and a
// part has slices [rows, slice_width]: a micro-kernel then reads contiguous memory.
constexpr std::int64_t panel_width = 64;
constexpr std::int64_t panels(std::int64_t n) { return (n + panel_width - 1) / panel_width; }

// A part of the columns of a gemv, from `begin` to `end` of `units`. A kernel reads b in several streams, and a part
// has a piece of each stream: parts that follow each other continue the same streams.
struct Part {
  static constexpr std::int64_t units = 4096;
  std::int64_t begin = 0, end = units;
};
// A function that is called for ranges of columns that are complete.
using ColumnsDone = FunctionRef<void(std::int64_t col, std::int64_t cols)>;

// What gemm_packed() multiplies by: op(b) in panels, one after another.
template <class T>
struct PackedB {
  const T* panels;
  bool kept = false;        // by an earlier call: they are probably not in the L2 cache
  const T* bias = nullptr;  // [n], added to each row of c, or none
};

template <class T>
struct GemmKernels {
  std::int64_t slice_width, kc;
  // Packs columns panel_width * panel … of op(b); does not write columns beyond n.
  void (*pack_b)(const GemmParams<T>& p, const T* b, std::int64_t panel, T* out);
  // Matmul with a packed b; scratch: gemm_packed_scratch(p) elements.
  void (*gemm_packed)(const GemmParams<T>& p, const T* a, const PackedB<T>& b, T* c, T* scratch);
  // out[c out_ld + r] = x[r ld + c].
  void (*transpose)(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, T* out, std::int64_t out_ld);
  // Matmul of small matrices or few rows, without packing, in the same order of additions as gemm_packed; scratch:
  // gemm_unpacked_scratch(p) elements.
  void (*gemm_unpacked)(const GemmParams<T>& p, const T* a, const T* b, T* c, T* scratch);
  // c [m, n] += a b in that order, for a b whose row i begins at b + rows[i], and may overlap others. n is a multiple
  // of slice_width. Of p, only m, n, k, lda and ldc count.
  void (*gemm_rows)(const GemmParams<T>& p, const T* a, const T* b, const std::int64_t* rows, T* c);
  // Matmul for m up to gemv_max_m, or gemv_max_m_transposed if b is transposed; a is not transposed. Reads b once,
  // without packing.
  void (*gemv)(const GemmParams<T>& p, const T* a, const T* b, T* c);
  // The same for m up to gemv_max_m: a part of the columns if b is transposed, else all of them.
  void (*gemv_part)(const GemmParams<T>& p, const T* a, const T* b, T* c, Part part, ColumnsDone done);
  // Like gemv for transposed b, alpha 1 and beta 0, but in the same order of additions as gemm_packed.
  void (*gemv_in_order)(const GemmParams<T>& p, const T* a, const T* b, T* c);
  // Adds a row [cols] to each row of c [rows, cols]: the bias of a linear layer, after the other kernels.
  void (*add_row)(std::int64_t rows, std::int64_t cols, const T* row, T* c, std::int64_t ldc);
};

// Up to this many rows, reading b takes longer than the arithmetic.
constexpr int gemv_max_m = 4, gemv_max_m_transposed = 24;
// Up to this many rows, transposing blocks of b in registers for each four rows is faster than packing them once.
constexpr int gemv_in_order_max_m = 8;

/// Reference, against which the kernels are tested.
namespace reference {
/// c [m, n] = alpha a [m, k] b [k, n] + beta c; a(i, l), b(l, j) and c(i, j) return the elements.
template <class N, class A, class B, class C>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, N alpha, const A& a, const B& b, N beta, const C& c) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const N sum = sum_of<N>(k, [&](std::int64_t l) { return a(i, l) * b(l, j); });
      c(i, j) = beta == N(0) ? alpha * sum : alpha * sum + beta * c(i, j);
    }
}
}  // namespace reference

inline namespace FIT_ISA_NAMESPACE {

// A block of a is [mc, kc] and fits the L2 cache. A slice of b is [kc, slice_width]: with AVX2 it fits the L1 cache,
// with AVX-512 it comes from the L2 cache, which is fast enough. The chains of additions are cut after every kc.
constexpr std::int64_t mc = 192;
constexpr std::int64_t kc = 384;

// A transposed a with rows of a page or more apart is copied first: there the processor does not prefetch.
template <class T>
bool packs_a(const GemmParams<T>& p) {
  return p.transpose_a && p.lda * static_cast<std::int64_t>(sizeof(T)) >= 4096;
}
template <class T>
std::int64_t gemm_packed_scratch(const GemmParams<T>& p) {
  return packs_a(p) ? mc * kc : 0;
}
template <class T>
std::int64_t gemm_unpacked_scratch(const GemmParams<T>& p) {
  return p.transpose_b ? kc * panel_width : 0;
}

}  // namespace FIT_ISA_NAMESPACE

template <class IsaTag, class T>
const GemmKernels<T>& gemm_table();

}  // namespace fit::kernels
