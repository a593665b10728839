#include "matmul/gemm_kernels_bf16.hpp"

#include "matmul/gemv_bf16_panels.hpp"
#if defined(__AVX512F__)
#include "matmul/gemv_bf16.hpp"
#include "matmul/micro_kernel_bf16.hpp"
#include "matmul/pack_bf16.hpp"
#endif

namespace fit::kernels {
namespace {

using V = Vec<float>;

template <class From>
void widen(std::int64_t rows, std::int64_t cols, const From* x, std::int64_t ld, float* out, std::int64_t out_ld) {
  for (std::int64_t r = 0; r < rows; ++r)
    for_each_vector<V>(cols, [&](std::int64_t j, auto access) {
      V y = access.template load<V>(x + r * ld + j, From(0));
      if constexpr (std::is_same_v<From, float>) y = to_bf16_precision(y);
      access.store(y, out + r * out_ld + j);
    });
}

// x = values[bits of x]. A gather reads words: each value with the next.
void look_up(std::int64_t n, const BFloat16* values, BFloat16* x) {
  std::int64_t j = 0;
#if defined(__AVX512F__)
  for (; j + 16 <= n; j += 16) {
    auto* const at = reinterpret_cast<__m256i*>(x + j);
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at));
    _mm256_storeu_si256(at, _mm512_cvtepi32_epi16(_mm512_i32gather_epi32(bits, values, sizeof(BFloat16))));
  }
#endif
  for (; j < n; ++j) x[j] = values[x[j].bits];
}

template <class Access, class To>
void finish(std::int64_t rows, std::int64_t cols, float alpha, const float* x, std::int64_t ld, float beta,
            const Bf16Then& then, To* to, std::int64_t to_ld) {
  const V factor(alpha), old_factor(beta);
  for (std::int64_t r = 0; r < rows; ++r) {
    To* const row = to + r * to_ld;
    for_each_vector<V, Access>(cols, [&](std::int64_t j, auto access) {
      V y = factor * access.template load<V>(x + r * ld + j, 0.0F);
      if (beta != 0) y = y + old_factor * access.template load<V>(row + j, To(0));
      if (then.bias) y = y + access.template load<V>(then.bias + j, 0.0F);
      access.store(y, row + j);
    });
    if constexpr (std::is_same_v<To, BFloat16>)
      if (then.values) look_up(cols, then.values, row);
  }
}

#if defined(__AVX512F__)
// Computes c in blocks of Way::rows by panel_width. A block of rows stays in the L1 cache while it is multiplied by
// panels that fit the L2 cache. If they are not there yet, these are few, and each block of rows fetches its share of
// the panels that come next.
template <class Way, class To>
void gemm_block(const Bf16Block& block, To* c) {
  alignas(64) float buffer[Way::rows * panel_width];
  constexpr std::int64_t l2 = 1 << 18, part_of_l2 = 1 << 16;  // elements
  const std::int64_t count = panels(block.n);
  const std::int64_t few = (block.next ? part_of_l2 : l2) / (block.k * panel_width);
  const std::int64_t together = few < 1 ? 1 : few < count ? few : count;
  const std::int64_t row_blocks = (block.m + Way::rows - 1) / Way::rows;
  std::int64_t configured = 0;
  const auto one = [&](std::int64_t i, std::int64_t j) {
    const std::int64_t row = i * Way::rows, rows = block.m - row < Way::rows ? block.m - row : Way::rows;
    const std::int64_t col = j * panel_width, cols = block.n - col < panel_width ? block.n - col : panel_width;
    if (rows != configured) Way::begin(rows);
    configured = rows;
    const BFloat16* const panel = block.panels + j * block.panel_step;
    const BFloat16* const a = block.a + row * block.lda;
    float* const sums = block.sums ? block.sums + col * block.m + row * panel_width : buffer;
    Ahead ahead;
    if (block.next) {
      const BFloat16* const next = j + together < count ? panel + together * block.panel_step
                                                        : block.next + (j + together - count) * block.panel_step;
      ahead = share_of_ahead(next - panel, i, row_blocks);
    }
    Way::macro_kernel(rows, cols, block.k, a, block.lda, panel, sums, panel_width, !block.first, ahead);
    if (!block.last) return;
    const auto write = [&](auto by) {
      by(rows, cols, block.alpha, sums, panel_width, block.beta, block.then.at(col), c + row * block.ldc + col,
         block.ldc);
    };
    if constexpr (std::is_same_v<To, float>)
      if (block.nontemporal) return write(finish<NonTemporal, To>);
    write(finish<Full, To>);
  };
  for (std::int64_t first = 0; first < count; first += together)
    for (std::int64_t i = 0; i < row_blocks; ++i)
      for (std::int64_t j = first; j < count && j < first + together; ++j) one(i, j);
  Way::end();
  if (block.nontemporal) fence_nontemporal_stores();
}

template <class Way>
constexpr Bf16Kernels native() {
  return {{pack_a_bf16<float>, pack_b_bf16<float>, widen<float>},
          {pack_a_bf16<BFloat16>, pack_b_bf16<BFloat16>, widen<BFloat16>},
          {gemm_block<Way, float>, gemv_bf16_native<float>, finish<Full, float>},
          {gemm_block<Way, BFloat16>, gemv_bf16_native<BFloat16>, finish<Full, BFloat16>},
          gemv_part<float, BFloat16>,
          gemv_in_order<float, BFloat16>,
          gemv_bf16_panels,
          pack_bf16_panel};
}
#endif

}  // namespace

template <class IsaTag, class T>
const Bf16Kernels& bf16_table() {
#if defined(__AVX512F__)
  static constexpr Bf16Kernels amx = native<Amx>(), avx512_bf16 = native<Avx512Bf16>();
  if (narrow_isa() == Isa::amx) return amx;
  if (narrow_isa() == Isa::avx512_bf16) return avx512_bf16;
#endif
  static constexpr Bf16Kernels widened{{nullptr, nullptr, widen<float>},
                                       {nullptr, nullptr, widen<BFloat16>},
                                       {nullptr, nullptr, finish<Full, float>},
                                       {nullptr, nullptr, finish<Full, BFloat16>},
                                       gemv_part<float, BFloat16>,
                                       gemv_in_order<float, BFloat16>,
                                       gemv_bf16_panels,
                                       pack_bf16_panel};
  return widened;
}

template const Bf16Kernels& bf16_table<FIT_ISA, BFloat16>();

}  // namespace fit::kernels
