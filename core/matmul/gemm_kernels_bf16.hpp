#pragma once
#include <cstdint>

#include "fit/bfloat16.hpp"
#include "kernels/simd/isa.hpp"
#include "matmul/gemm_kernels.hpp"

// The kernels of matmul of BFloat16, with sums in float. gemm_bf16.hpp splits the work among threads.
//
// An operand of floats is rounded to BFloat16 while it is packed. Products of two BFloat16 are exact in float; sums are
// rounded by operation, with at least 1 chain of additions along k: (k + 6) / 2 units in the last place of the sum of
// |a b|, times alpha. A result in BFloat16 is rounded once more, at the end. Multiplied by the processor's instructions
// for BFloat16 (avx512_bf16 and amx), numbers under the smallest normal float (2^-126) count as 0, be they operands,
// products or sums.
//
// The additions for an element of c come in an order that depends on k alone.
namespace fit::kernels {

// The instructions take pairs of neighbours along k. So
//   a is made rows [m, k], each filled up with zeros to a multiple of bf16_step, unless it lies in memory like that,
//   b is made panels of panel_width columns, [k / 2, panel_width, 2] each, filled up with zeros likewise.
constexpr std::int64_t bf16_step = 32;
constexpr std::int64_t bf16_filled(std::int64_t k) { return (k + bf16_step - 1) / bf16_step * bf16_step; }

// So much of k is multiplied at a time: parts of a and b then fit the L2 cache.
constexpr std::int64_t bf16_kc = 1024;

// c [m, n] = alpha (sums + a b) + beta c + bias, of one part of k.
struct Bf16Block {
  Bf16Block() {}
  std::int64_t m = 0, n = 0, k = 0;  // k: filled up
  const BFloat16* a = nullptr;       // [m, k]
  std::int64_t lda = 0;
  const BFloat16* panels = nullptr;  // of b
  std::int64_t panel_step = 0;       // from one panel to the next
  // What earlier parts of k have added up, [panels(n), m, panel_width]; null where this part is the only one. The first
  // part doesn't read it, all but the last write it in place of c.
  float* sums = nullptr;
  bool first = true, last = true;
  bool nontemporal = false;  // c, of floats, is written past the caches: stores_nontemporal()
  float alpha = 1, beta = 0;
  const float* bias = nullptr;  // [n], or null
  std::int64_t ldc = 0;
};

// x [rows, cols], rows ld elements apart, becomes out, rows out_ld apart.
template <class From, class To>
using Bf16Convert = void (*)(std::int64_t rows, std::int64_t cols, const From* x, std::int64_t ld, To* out,
                             std::int64_t out_ld);

// What depends on the type of an operand: float or BFloat16.
template <class From>
struct Bf16Operand {
  // Rows of op(a), [rows, k] or, transposed, [k, rows], as `out` [rows, out_ld]; out_ld >= bf16_filled(k).
  void (*pack_a)(bool transposed, std::int64_t rows, std::int64_t k, const From* x, std::int64_t ld, BFloat16* out,
                 std::int64_t out_ld);
  // Columns of op(b), [k, cols] or, transposed, [cols, k], as a panel.
  void (*pack_b)(bool transposed, std::int64_t cols, std::int64_t k, const From* x, std::int64_t ld, BFloat16* out);
  // As floats with the value of a BFloat16.
  Bf16Convert<From, float> widen;
};

// What depends on the type of a result: float or BFloat16.
template <class To>
struct Bf16Result {
  // The block on the processor's instructions for BFloat16; null where it has none.
  void (*gemm_block)(const Bf16Block& block, To* c);
  // to = alpha x + beta to + bias, rounded once; beta = 0 doesn't read it. bias [cols] may be null.
  void (*finish)(std::int64_t rows, std::int64_t cols, float alpha, const float* x, std::int64_t ld, float beta,
                 const float* bias, To* to, std::int64_t to_ld);
};

struct Bf16Kernels {
  Bf16Operand<float> from_float;
  Bf16Operand<BFloat16> from_bf16;
  Bf16Result<float> to_float;
  Bf16Result<BFloat16> to_bf16;
  // As that of GemmKernels, up to gemv_max_m.
  void (*gemv)(const GemmParams<float>& p, const float* a, const BFloat16* b, float* c);
  // The same for b' on the processor's instructions for BFloat16, with sums in place of c; a is filled up as a block's
  // is. Null where it has none.
  void (*gemv_native)(const GemmParams<BFloat16>& p, const BFloat16* a, const BFloat16* b, float* sums);

  template <class From>
  const Bf16Operand<From>& operand() const {
    if constexpr (std::is_same_v<From, float>)
      return from_float;
    else
      return from_bf16;
  }
  template <class To>
  const Bf16Result<To>& result() const {
    if constexpr (std::is_same_v<To, float>)
      return to_float;
    else
      return to_bf16;
  }
};

template <class IsaTag, class T>
const Bf16Kernels& bf16_table();

/// Those for this processor.
inline const Bf16Kernels& bf16_kernels() { return FIT_KERNELS(bf16_table, BFloat16); }

}  // namespace fit::kernels
