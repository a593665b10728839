#include "matmul/gemm_bf16.hpp"

#include <algorithm>

#include "base/scratch.hpp"
#include "fit/matmul/reproducible.hpp"
#include "kernels/simd/nontemporal.hpp"

namespace fit::kernels {
namespace {

// LCOV_EXCL_START(avx512_bf16): other processors widen to float.
// With the processor's instructions for BFloat16. kept: all panels of op(b), or null.
template <class A, class B, class C>
void gemm_bf16_native(const GemmParams<BFloat16>& p, Bf16Loop loop, const A* a, const B* b, C* c, const Bf16Then& then,
                      const BFloat16* kept) {
  const Bf16PackedA<A> rows(p, a);
  const Bf16PackedB<B> cols(p, b, kept);
  const bool nontemporal = std::is_same_v<C, float> && p.beta == 0 && p.ldc == p.n && is_whole_lines(c, p.n) &&
                           stores_nontemporal(c, p.m, p.n);
  const bool symmetric = !then.bias && is_symmetric(p, a, b);
  gemm_bf16_parts(p, loop, rows, cols, [&](Bf16Block& block, std::int64_t row, std::int64_t col) {
    if (symmetric) {  // from the diagonal on
      col = row;
      block.n -= row;
      block.panels += row / panel_width * block.panel_step;
    }
    block.then = then.at(col);
    block.nontemporal = nontemporal && !symmetric;
    bf16_kernels().result<C>().gemm_block(block, c + row * p.ldc + col);
    if (symmetric && block.last) mirror({row, block.m, row + block.m, block.n - block.m}, sizeof(C), c, p.ldc);
  });
}

// LCOV_EXCL_STOP

// The float product of the same shape, but with alpha 1, beta 0 and contiguous operands.
GemmParams<float> as_floats(const GemmParams<BFloat16>& p) {
  return contiguous<float>(p.m, p.n, p.k, p.transpose_a, p.transpose_b);
}

// Widens x [rows, cols].
template <class From>
void bf16_widened(Bf16Loop loop, std::int64_t rows, std::int64_t cols, const From* x, std::int64_t ld, float* out) {
  bf16_loop(loop, rows, (1 << 15) / cols + 1, [&](std::int64_t i, std::int64_t end) {
    bf16_kernels().operand<From>().widen(end - i, cols, x + i * ld, ld, out + i * cols, cols);
  });
}

// Packs all panels of op(b) as float.
template <class B>
void pack_b_widened(const GemmParams<BFloat16>& p, Bf16Loop loop, const B* b, float* out) {
  const auto widen = bf16_kernels().operand<B>().widen;
  bf16_loop(loop, panels(p.n), (1 << 15) / (panel_width * p.k) + 1, [&](std::int64_t i, std::int64_t end) {
    const Scratch<float> columns(panel_width * p.k);
    for (; i < end; ++i) {
      const std::int64_t col = i * panel_width, cols = std::min(panel_width, p.n - col);
      const GemmParams<float> f = contiguous<float>(p.m, cols, p.k, false, p.transpose_b);
      p.transpose_b ? widen(cols, p.k, b + col * p.ldb, p.ldb, columns.get(), f.ldb)
                    : widen(p.k, cols, b + col, p.ldb, columns.get(), f.ldb);
      FIT_KERNELS(gemm_table, float).pack_b(f, columns.get(), 0, out + col * p.k);
    }
  });
}

// kept: all panels of op(b) as float, or null.
template <class A, class B, class C>
void gemm_bf16_widened(const GemmParams<BFloat16>& p, Bf16Loop loop, const A* a, const B* b, C* c, const Bf16Then& then,
                       const float* kept) {
  constexpr bool narrow = std::is_same_v<C, BFloat16>;
  const GemmParams<float> f = as_floats(p);
  const bool packed = route(f) != Route::openblas;
  const Scratch<float> scratch(kept ? 0 : packed ? panels(p.n) * panel_width * p.k : p.n * p.k);
  const float* const wide_b = kept ? kept : scratch.get();
  if (!kept)
    packed ? pack_b_widened(p, loop, b, scratch.get())
           : bf16_widened(loop, p.transpose_b ? p.n : p.k, f.ldb, b, p.ldb, scratch.get());
  const bool few_rows = kept && p.m <= gemv_max_m_transposed;
  Tiling t = few_rows ? gemv_tiling(p.m, p.n, p.k, sizeof(float)) : tiling(p.m, p.n, p.flops());
  const bool symmetric = packed && !kept && !then.bias && is_symmetric(p, a, b);
  if (symmetric) t = symmetric_tiling(t, p.n);
  bf16_loop(loop, t.count(), 1, [&](std::int64_t i, std::int64_t end) {
    const Scratch<float> wide_a(t.rows * p.k), sums(narrow ? t.rows * t.cols : 0), rows(gemm_packed_scratch(f));
    for (; i < end; ++i) {
      const Tile at = t.tile(i, p.m, p.n);
      if (at.rows == 0) continue;
      const std::int64_t row = at.row, col = at.col;
      GemmParams<float> part = contiguous<float>(at.rows, at.cols, p.k, p.transpose_a, p.transpose_b);
      part.ldb = f.ldb;
      bf16_widened(Bf16Loop::here, p.transpose_a ? p.k : part.m, part.lda, a + row * (p.transpose_a ? 1 : p.lda), p.lda,
                   wide_a.get());
      C* const tile = c + row * p.ldc + col;
      float* to = sums.get();
      if constexpr (!narrow) {
        to = tile;
        part.alpha = p.alpha;
        part.beta = p.beta;
        part.ldc = p.ldc;
      }
      packed ? FIT_KERNELS(gemm_table, float)
                   .gemm_packed(part, wide_a.get(), {wide_b + col * p.k, kept != nullptr}, to, rows.get())
             : gemm(part, wide_a.get(), wide_b + col * (p.transpose_b ? p.k : 1), to);
      const auto finish = bf16_kernels().result<C>().finish;
      if (narrow)
        finish(part.m, part.n, p.alpha, to, part.ldc, p.beta, then.at(col), tile, p.ldc);
      else if (then.bias)
        finish(part.m, part.n, 1, to, part.ldc, 0, then.at(col), tile, p.ldc);
      if (symmetric) mirror(below_diagonal(at), sizeof(C), c, p.ldc);
    }
  });
}

// Whether gemv_bf16() adds in the order of many rows, as Reproducible asks.
bool gemv_bf16_in_order(const GemmParams<BFloat16>& p) {
  return !multiplies_bf16() && p.transpose_b && p.alpha == 1 && p.beta == 0;
}

}  // namespace

bool takes_row_panels(const GemmParams<BFloat16>& p) {
  return reproducible() && p.m <= gemv_max_m_transposed && !p.transpose_a && gemv_bf16_in_order(p);
}

namespace {

// Calls multiply(part) for the parts of a gemv for transposed b.
template <class Multiply>
void gemv_bf16_parts(const GemmParams<BFloat16>& p, Bf16Loop loop, const Multiply& multiply) {
  loop == Bf16Loop::threads ? gemv_parallel(p.m, p.n, p.k, sizeof(BFloat16), multiply) : multiply(Part{});
}

// For few rows: reads b once, without packing. With the processor's instructions for BFloat16, for b'.
template <class A, class C>
void gemv_bf16_native(const GemmParams<BFloat16>& p, Bf16Loop loop, const A* a, const BFloat16* b, C* c,
                      const Bf16Then& then) {
  GemmParams<BFloat16> padded = p;
  padded.lda = bf16_filled(p.k);
  const Scratch<BFloat16> rows(p.m * padded.lda);
  bf16_kernels().operand<A>().pack_a(false, p.m, p.k, a, p.lda, rows.get(), padded.lda);
  gemv_bf16_parts(p, loop, [&](Part part) { bf16_kernels().result<C>().gemv(padded, rows.get(), b, then, c, part); });
}

// The same in float. kept: all panels of b' as BFloat16, or null.
template <class A, class C>
void gemv_bf16_widened(const GemmParams<BFloat16>& p, Bf16Loop loop, const A* a, const BFloat16* b, C* c,
                       const Bf16Then& then, const BFloat16* kept) {
  const Bf16Kernels& kernels = bf16_kernels();
  GemmParams<float> f = as_floats(p);
  f.ldb = p.ldb;
  const Scratch<float> rows(p.m * p.k), sums(p.m * p.n);
  bf16_widened(Bf16Loop::here, p.m, p.k, a, p.lda, rows.get());
  const auto finish = [&](std::int64_t col, std::int64_t cols) {
    kernels.result<C>().finish(p.m, cols, p.alpha, sums.get() + col, p.n, p.beta, then.at(col), c + col, p.ldc);
  };
  if (p.transpose_b && !reproducible())
    return gemv_bf16_parts(p, loop, [&](Part part) { kernels.gemv_part(f, rows.get(), b, sums.get(), part, finish); });
  const Tiling t = gemv_tiling(p.m, p.n, p.k, sizeof(BFloat16));
  bf16_loop(loop, t.count(), 1, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const std::int64_t col = i * t.cols;
      GemmParams<float> part = f;
      part.n = std::min(t.cols, p.n - col);
      float* const to = sums.get() + col;
      if (kept)
        kernels.gemv_panels(part, rows.get(), kept + col * p.k, to);
      else if (p.transpose_b)
        kernels.gemv_in_order(part, rows.get(), b + col * p.ldb, to);
      else
        kernels.gemv_part(part, rows.get(), b + col, to, {}, [](std::int64_t, std::int64_t) {});
      finish(col, part.n);
    }
  });
}

// For k > 0; c may be a single row. kept: null, or all panels of op(b) as pack_panels() wrote them.
template <class A, class B, class C>
void gemm_bf16_terms(const GemmParams<BFloat16>& p, Bf16Loop loop, const A* a, const B* b, C* c, const Bf16Then& then,
                     const void* kept) {
  if constexpr (std::is_same_v<B, BFloat16>) {
    const auto* const few_rows = takes_row_panels(p) ? static_cast<const BFloat16*>(kept) : nullptr;
    if (few_rows || (p.m <= gemv_max_m && !p.transpose_a && (!reproducible() || gemv_bf16_in_order(p))))
      return p.transpose_b && multiplies_bf16() ? gemv_bf16_native(p, loop, a, b, c, then)
                                                : gemv_bf16_widened(p, loop, a, b, c, then, few_rows);
  }
  multiplies_bf16() ? gemm_bf16_native(p, loop, a, b, c, then, static_cast<const BFloat16*>(kept))
                    : gemm_bf16_widened(p, loop, a, b, c, then, static_cast<const float*>(kept));
}

}  // namespace

template <class A, class B, class C>
void gemm_bf16(const GemmParams<BFloat16>& p, Bf16Loop loop, const A* a, const B* b, C* c, const Bf16Then& then,
               const void* kept) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    const float nothing[panel_width] = {};
    for (std::int64_t j = 0; j < p.n; j += panel_width)
      bf16_kernels().result<C>().finish(p.m, std::min(panel_width, p.n - j), 1, nothing, 0, p.beta, then.at(j), c + j,
                                        p.ldc);
    return;
  }
  if (!is_column(p) || then.bias) return gemm_bf16_terms(p, loop, a, b, c, then, kept);
  gemm_bf16_terms(as_row(p), loop, b, a, c, then, nullptr);
}

bool takes_panels(const GemmParams<BFloat16>& p) {
  if (takes_row_panels(p)) return p.n > 1;
  return p.m > gemv_max_m &&
         (multiplies_bf16() ? p.n > 1 : takes_panels(as_floats(p)));  // LCOV_EXCL_BR_LINE(avx512_bf16)
}

std::int64_t panels_bytes(const GemmParams<BFloat16>& p) {
  if (takes_row_panels(p)) return 2 * panels(p.n) * panel_width * p.k;
  return multiplies_bf16() ? 2 * Bf16PackedB<BFloat16>(p, nullptr, nullptr).packed_size(p.n, p.k)
                           : panels_bytes(as_floats(p));
}

void pack_panels(const GemmParams<BFloat16>& p, const BFloat16* b, void* out) {
  if (takes_row_panels(p)) {
    GemmParams<float> f = as_floats(p);
    f.ldb = p.ldb;
    return parallel_for(panels(p.n), (1 << 15) / (panel_width * p.k) + 1, [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) bf16_kernels().pack_panel(f, b, i, static_cast<BFloat16*>(out) + i * panel_width * p.k);
    });
  }
  multiplies_bf16()
      ? pack_bf16(Bf16PackedB<BFloat16>(p, b, nullptr), Bf16Loop::threads, p.k, static_cast<BFloat16*>(out))
      : pack_b_widened(p, Bf16Loop::threads, b, static_cast<float*>(out));
}

#define FIT_GEMM(A, B, C) \
  template void gemm_bf16(const GemmParams<BFloat16>&, Bf16Loop, const A*, const B*, C*, const Bf16Then&, const void*);
#define FIT_GEMM_OPERANDS(C) FIT_GEMM(BFloat16, BFloat16, C) FIT_GEMM(BFloat16, float, C) FIT_GEMM(float, BFloat16, C)
FIT_GEMM_OPERANDS(BFloat16)
FIT_GEMM_OPERANDS(float)
#undef FIT_GEMM_OPERANDS
#undef FIT_GEMM

}  // namespace fit::kernels
