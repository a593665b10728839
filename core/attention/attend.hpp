#pragma once
#include <optional>
#include <vector>

#include "attention/expression.hpp"
#include "attention/kernel.hpp"
#include "fit/attention.hpp"
#include "fit/observer.hpp"

// Attention:
//   scores[i, j] = scale q[i] k[j] + bias[i, j] - alibi |place(i) - j|
//   weights[i]   = softmax of scores[i] over the keys j that query i attends to, and of the sink; 0 for other keys
//   out[i]       = sum over j of (weights[i, j] after dropout) v[j]
//
// Read the files of this folder in this order:
//   reference.hpp      the formula in loops
//   decomposition.cpp  the formula in operations; masked_matmul.hpp: products that leave masked pairs out
//   visibility.hpp     which query attends to which key; masks.cpp: masks; plan.hpp: which tiles are empty or full
//   attend.cpp         the operation and its adjoint; arguments.cpp: its checks; event.cpp: its observers
//   kernel.hpp         the kernel's interface; kernel.cpp and tasks.hpp cut a call into tasks
//   tiles.simd.cpp     the tiles of a task; rows.hpp: the rows of a tile; tiles.hpp: the products of a tile
//   expression.hpp     lambdas for masks and scores, as lists of steps; score_program.hpp: the list in the kernel
//   linear_attention.cpp and linear_*  linear attention, an operation of its own
namespace fit::detail {

/// fit::attend() for the public function `op`, whose name is in errors.
AttentionResult attend(const char* op, const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options);

/// Checks the operands and the cache, and computes heads and features that are not given. Returns the sizes; Sk
/// includes the keys of the cache. Throws Error in the name of `op`.
kernels::Attention<> check_operands(const char* op, Heads& q, Heads& k, Heads& v, const AttentionCache* cache);

/// The tensors and expressions of AttentionMasks, checked. Each may be absent.
struct Terms {
  Tensor mask;               // boolean (B|1, H|1, 1|Sq, Sk)
  Tensor bias, alibi, sink;  // in the type of the scores; the bias (B|1, H|1, 1|Sq, Sk)
  std::optional<Expression> attends, score;
};

/// Checks the options, and writes their numbers to `a`. With dropout, draws the key of the call from the generator.
/// `dtype` is the type of the scores.
Terms check_options(const char* op, kernels::Attention<>& a, DType dtype, const AttentionOptions& options);

/// (1|Sq, Sk), (B|1, 1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk) as four axes. Returns the shape of a scalar for another rank.
Shape mask_axes(const Shape& s);

/// 1 and 0 as true and false. Throws Error in the name of `op` for other numbers.
Tensor to_boolean(const char* op, const Tensor& mask);

/// A mask of true (attend) and false, or of 1 and 0, for scores (B, H, Sq, Sk): boolean (B|1, H|1, 1|Sq, Sk). Throws
/// Error in the name of `op` for other numbers, and if it does not fit.
Tensor boolean_mask(const char* op, const Tensor& mask, const Shape& scores);

/// x as [B, heads, S, features].
Tensor split_heads(const Heads& h);

/// Attention by operations: the definition, which is differentiated again for second derivatives. k and v may have more
/// positions than a.Sk, as in a cache. edits: the call, if observers change it, or null.
AttentionResult decomposed_attention(const Heads& q, const Heads& k, const Heads& v, const kernels::Attention<>& a,
                                     const Terms& terms, const AttentionInfo* edits = nullptr);

/// The scores, [B, H, Sq, Sk], -inf for masked pairs, without a graph.
Tensor attention_scores(const Heads& q, const Heads& k, const kernels::Attention<>& a, const Terms& terms);

/// The shapes of the results. That of lse has no last axis.
Shape output_shape(const Heads& q, const kernels::Attention<>& a);
Shape weights_shape(const Heads& q, const kernels::Attention<>& a);

/// The pairs (B, H, Sq, Sk) from `origin` on that an expression allows, boolean (B|1, H|1, Sq, Sk). Pairs that
/// causality or the window masks may have any value.
Tensor evaluate_mask(const Expression& attends, const Shape& pairs, const PairOrigin& origin = {});
/// The pairs that attend, boolean (B, H, Sq, Sk).
Tensor pairs_mask(const kernels::Visibility& v, std::int64_t B = 1, std::int64_t H = 1);

/// -slopes[h] |i + Sk - Sq - j|, (1, H, Sq, Sk).
Tensor alibi_bias(const Tensor& slopes, std::int64_t queries, std::int64_t keys, DType dtype);

/// The heads of h as a view of `data`, which has the elements of h.x or of a tensor of the same shape.
template <class T>
kernels::HeadView<T> view(const Heads& h, T* data) {
  const std::int64_t S = h.x.size(h.layout == HeadLayout::first ? -2 : 1), D = h.features, F = h.x.size(-1);
  if (h.layout == HeadLayout::first) return {data, h.heads * S * D, S * D, D};
  return {data + h.offset, S * F, D, F};
}
/// The heads of h, for reading.
template <class T>
kernels::HeadView<const T> view(const Heads& h) {
  return view(h, h.x.data<T>().data());
}

/// The elements of x (B|1, H|1, 1|Sq, Sk), repeated along axes of size 1. The data is null if x is undefined.
template <class T>
kernels::HeadView<T> view_scores(T* data, const Tensor& x) {
  if (!x.defined()) return {};
  const Shape& s = x.shape();
  const auto stride = [&](int axis, std::int64_t step) { return s[axis] == 1 ? 0 : step; };
  return {data, stride(0, s[1] * s[2] * s[3]), stride(1, s[2] * s[3]), stride(2, s[3])};
}

/// The rule for a call. mask: boolean (B|1, H|1, 1|Sq, Sk), or undefined.
inline kernels::Visibility visibility(const Tensor& mask, bool causal, std::int64_t window, std::int64_t Sq,
                                      std::int64_t Sk) {
  kernels::Visibility v;
  v.Sq = Sq, v.Sk = Sk, v.causal = causal, v.window = window;
  if (mask.defined()) v.mask = view_scores(mask.data<bool>().data(), mask);
  return v;
}

// ---- observers (event.cpp) ---------------------------------------------------------------------------------------

/// Whether there are observers to tell of a call here.
bool attention_observed();

/// Tells the observers of a call; weights(first, count) computes the weights of elements of the batch.
void notify_attention(const AttentionInfo& info, AttentionEvent::Weights weights);

/// Offers heads to the observers as a value [B, heads, S, features] (see fit/named_values.hpp). Returns h itself unless
/// they replace it.
Heads observed_heads(const char* name, const Heads& h);

/// Whether an observer changes a call.
bool edits_attention(const AttentionInfo& info);

/// x, or the tensor that the observers of a call put there instead. edit: Observer::edit_scores, ….
Tensor edited_attention(const AttentionInfo& info, const char* name,
                        void (Observer::*edit)(const AttentionInfo&, Tensor&), Tensor x);

}  // namespace fit::detail
