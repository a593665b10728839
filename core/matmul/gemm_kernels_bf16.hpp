#pragma once
#include <cstdint>

#include "fit/base/bfloat16.hpp"
#include "kernels/simd/isa.hpp"
#include "matmul/gemm_kernels.hpp"

// The kernels of matmul of BFloat16, with sums in float. gemm_bf16.hpp splits the work among threads.
//
// Float operands are rounded to BFloat16 while they are packed. Products of two BFloat16 are exact in float; sums are
// rounded by operation, with at least 1 chain of additions along k: (k + 6) / 2 units in the last place of the sum of
// |a b|, times alpha. A BFloat16 result is rounded once more, at the end. The processor's instructions for BFloat16
// (avx512_bf16 and amx) treat numbers below the smallest normal float (2^-126) as 0: operands, products and sums.
//
// The order of the additions for an element of c depends on k only.
namespace fit::kernels {

// The instructions read pairs of neighbours along k. Packed a has rows [m, k], each padded with zeros to a multiple of
// bf16_step; a is not packed if its memory has this layout. Packed b has panels of panel_width columns, each [k / 2,
// panel_width, 2], with the same padding.
constexpr std::int64_t bf16_step = 32;
constexpr std::int64_t bf16_filled(std::int64_t k) { return (k + bf16_step - 1) / bf16_step * bf16_step; }

// Elements of k in one part: a block of rows of a then fits the L1 cache, and the panels fit the L2 cache.
constexpr std::int64_t bf16_kc = 512;

// The epilogue of a matmul: adds the bias and rounds to BFloat16. If there are values, the result is values[bits of the
// rounded sum]: a function of the elements, computed once for all 65536 BFloat16.
struct Bf16Then {
  Bf16Then(const float* bias = nullptr, const BFloat16* values = nullptr) : bias(bias), values(values) {}
  // For the columns from `col` on.
  Bf16Then at(std::int64_t col) const { return {bias ? bias + col : nullptr, values}; }

  const float* bias;       // [n], or null
  const BFloat16* values;  // [65536 and one more, which may be read], or null; only if the result is BFloat16
};

// c [m, n] = then(alpha (sums + a b) + beta c), of one part of k.
struct Bf16Block {
  Bf16Block() {}
  std::int64_t m = 0, n = 0, k = 0;  // k: padded
  const BFloat16* a = nullptr;       // [m, k]
  std::int64_t lda = 0;
  const BFloat16* panels = nullptr;  // of b
  std::int64_t panel_step = 0;       // distance between panels
  // The panels that this thread is likely to multiply by after these; null if its cache holds these already.
  const BFloat16* next = nullptr;
  // Sums of the earlier parts of k, [panels(n), m, panel_width]; null if there is only one part. The first part does
  // not read them. All parts except the last write them instead of c.
  float* sums = nullptr;
  bool first = true, last = true;
  bool nontemporal = false;  // writes a float c without the caches: stores_nontemporal()
  float alpha = 1, beta = 0;
  Bf16Then then;
  std::int64_t ldc = 0;
};

// Converts x [rows, cols] with row stride ld to out with row stride out_ld.
template <class From, class To>
using Bf16Convert = void (*)(std::int64_t rows, std::int64_t cols, const From* x, std::int64_t ld, To* out,
                             std::int64_t out_ld);

// Kernels that depend on the type of an operand: float or BFloat16.
template <class From>
struct Bf16Operand {
  // Packs rows of op(a), [rows, k] or, transposed, [k, rows], to out [rows, out_ld]; out_ld >= bf16_filled(k).
  void (*pack_a)(bool transposed, std::int64_t rows, std::int64_t k, const From* x, std::int64_t ld, BFloat16* out,
                 std::int64_t out_ld);
  // Packs columns of op(b), [k, cols] or, transposed, [cols, k], to a panel.
  void (*pack_b)(bool transposed, std::int64_t cols, std::int64_t k, const From* x, std::int64_t ld, BFloat16* out);
  // Converts to float, rounded to the precision of BFloat16.
  Bf16Convert<From, float> widen;
};

// Kernels that depend on the type of a result: float or BFloat16.
template <class To>
struct Bf16Result {
  // With the processor's instructions for BFloat16; null if there are none:
  // Computes a block.
  void (*gemm_block)(const Bf16Block& block, To* c);
  // Like gemv_part of GemmKernels: c = then(alpha a b' + beta c). a is padded like that of a block.
  void (*gemv)(const GemmParams<BFloat16>& p, const BFloat16* a, const BFloat16* b, const Bf16Then& then, To* c,
               Part part);
  // to = then(alpha x + beta to); `to` is not read if beta = 0.
  void (*finish)(std::int64_t rows, std::int64_t cols, float alpha, const float* x, std::int64_t ld, float beta,
                 const Bf16Then& then, To* to, std::int64_t to_ld);
};

struct Bf16Kernels {
  Bf16Operand<float> from_float;
  Bf16Operand<BFloat16> from_bf16;
  Bf16Result<float> to_float;
  Bf16Result<BFloat16> to_bf16;
  // Like gemv_part of GemmKernels.
  void (*gemv_part)(const GemmParams<float>& p, const float* a, const BFloat16* b, float* c, Part part,
                    ColumnsDone done);
  // Like gemv_in_order of GemmKernels, for m up to gemv_max_m.
  void (*gemv_in_order)(const GemmParams<float>& p, const float* a, const BFloat16* b, float* c);
  // The same for b in consecutive panels of pack_panel, for any m.
  void (*gemv_panels)(const GemmParams<float>& p, const float* a, const BFloat16* panels, float* c);
  // Packs panel_width columns of b' as BFloat16, with zeros beyond n.
  void (*pack_panel)(const GemmParams<float>& p, const BFloat16* b, std::int64_t panel, BFloat16* out);

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

/// The kernels for this processor.
inline const Bf16Kernels& bf16_kernels() { return FIT_KERNELS(bf16_table, BFloat16); }

}  // namespace fit::kernels
