#pragma once
#include <optional>
#include <vector>

#include "attention/expression.hpp"
#include "attention/kernel.hpp"
#include "fit/attention.hpp"

// Attention:
//   scores[i, j] = scale q[i] k[j] + bias[i, j] - alibi |place(i) - j|
//   weights[i]   = softmax of scores[i] over the keys j that query i attends to, and of the sink; 0 for other keys
//   out[i]       = sum over j of (weights[i, j] after dropout) v[j]
//
// To read this folder: reference.hpp has the formula in loops, decomposition.cpp in operations; visibility.hpp says
// which query attends to which key, and plan.hpp for which tiles; attend.cpp is the operation with its adjoint,
// arguments.cpp its checks, event.cpp its observers. It calls the kernel: kernel.hpp, cut into tasks by kernel.cpp and
// tasks.hpp, computed in tiles by tiles.simd.cpp, with rows.hpp for the rows of a tile, and tiles.hpp for the products.
namespace fit::detail {

/// fit::attend() for the public function `op`, whose name is in errors.
AttentionResult attend(const char* op, const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options);

/// Checks the operands and the cache, and computes heads and features that are not given. The result has the sizes; Sk
/// counts the keys of the cache, too. Throws Error in the name of `op`.
kernels::Attention<> check_operands(const char* op, Heads& q, Heads& k, Heads& v, const AttentionCache* cache);

/// Checks the options, and puts the numbers into `a`. Draws the number of the call from the generator, if there is
/// dropout. The result has a boolean mask and a bias, both with four axes, and slopes; `dtype` is that of the scores.
AttentionMasks check_options(const char* op, kernels::Attention<>& a, DType dtype, const AttentionOptions& options);

/// (1|Sq, Sk), (B|1, 1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk) as four axes; a scalar's shape for another rank.
Shape mask_axes(const Shape& s);

class AttentionEdits;

/// A function of the scores for a call; nothing if masks.score() is undefined.
std::optional<Expression> score_expression(const AttentionMasks& masks, const kernels::Attention<>& a);

/// Attention by operations: the definition, which is differentiated again for second derivatives. edits: the observers
/// that change the call, or null. score: instead of masks.score().
AttentionResult decomposed_attention(const Heads& q, const Heads& k, const Heads& v, const kernels::Attention<>& a,
                                     const AttentionMasks& masks, const AttentionEdits* edits = nullptr,
                                     const Expression* score = nullptr);

/// The scores, [B, H, Sq, Sk], -inf for masked pairs, without a graph.
Tensor attention_scores(const Heads& q, const Heads& k, const kernels::Attention<>& a, const AttentionMasks& masks);

/// The shapes of the results.
Shape output_shape(const Heads& q, const kernels::Attention<>& a);
Shape weights_shape(const Heads& q, const kernels::Attention<>& a);
/// The shape of lse, without the last axis of the weights.
Shape lse_shape(const Heads& q, const kernels::Attention<>& a);

/// The pairs that an expression leaves, boolean (B|1, H|1, Sq, Sk). Those that causality or the window mask may be any.
Tensor evaluate_mask(const AttentionMask& attends, std::int64_t B, std::int64_t H, std::int64_t Sq, std::int64_t Sk);
/// Boolean (1, 1, Sq, Sk): the pairs that causality and the window leave.
Tensor range_mask(const kernels::Visibility& v);

/// -slopes[h] |i + Sk - Sq - j|, (1, H, Sq, Sk).
Tensor alibi_bias(const Tensor& slopes, std::int64_t queries, std::int64_t keys, DType dtype);

/// The heads h of `data`, the elements of h.x or of a tensor like it.
template <class T>
kernels::HeadView<T> view(const Heads& h, T* data) {
  const std::int64_t S = h.x.size(h.layout == HeadLayout::first ? -2 : 1), D = h.features, F = h.x.size(-1);
  if (h.layout == HeadLayout::first) return {data, h.heads * S * D, S * D, D};
  return {data + h.offset, S * F, D, F};
}

/// Numbers over the scores, (B|1, H|1, 1|Sq, Sk), with strides of 0 along axes of size 1; nothing if x is undefined.
template <class T>
kernels::HeadView<T> view_scores(T* data, const Tensor& x) {
  if (!x.defined()) return {};
  const Shape& s = x.shape();
  const auto stride = [&](int axis, std::int64_t step) { return s[axis] == 1 ? 0 : step; };
  return {data, stride(0, s[1] * s[2] * s[3]), stride(1, s[2] * s[3]), stride(2, s[3])};
}

/// Which query attends to which key, for a boolean mask (B|1, H|1, 1|Sq, Sk), or none.
inline kernels::Visibility visibility(const Tensor& mask, bool causal, std::int64_t window, std::int64_t Sq,
                                      std::int64_t Sk) {
  return {Sq,
          Sk,
          causal,
          window,
          mask.defined() ? view_scores(mask.data<bool>().data(), mask) : kernels::HeadView<const bool>{},
          {}};
}

}  // namespace fit::detail
