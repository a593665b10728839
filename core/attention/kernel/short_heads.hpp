#pragma once
#include "attention/kernel/kernel.hpp"

// Attention of short heads, float only: those whose scores are one tile. The scores of a key lie side by side, one for
// each query. So maxima and sums over the keys are those of whole vectors, and heads of few features have products of
// long rows. Formulas and errors as in kernel.hpp.
namespace fit::kernels {

struct ShortHeads {
  // out and stats of the heads begin … end - 1 of [B, H]. Returns whether all is finite; otherwise the results are to
  // be computed by AttentionTable.
  bool (*forward)(const Attention<float>& a, std::int64_t begin, std::int64_t end, const HeadView<float>& out,
                  const SoftmaxStats<float>& stats, float* workspace);
  // dq, dk and dv of the heads begin … end - 1 of [B, kv_heads]. Returns whether all is finite.
  bool (*backward)(const AttentionBackward<float>& call, std::int64_t begin, std::int64_t end, float* workspace);
};

template <class IsaTag, class T>  // T: float
const ShortHeads& short_heads_table();

/// Whether ShortHeads can compute a call, and does so sooner: one block of queries and keys, not many features, nothing
/// but a mask, and an order of additions that is free.
inline bool has_short_heads(const AttentionScores<float>& a) {
  const bool one_tile = !few_queries(a) && a.Sq <= query_step(a) && a.Sk <= key_block && a.D <= 64 && a.Dv <= 64;
  return one_tile && !a.bias.data && !a.alibi && !a.sink && !a.score && a.dropout.p == 0 && !a.reproducible;
}

}  // namespace fit::kernels
