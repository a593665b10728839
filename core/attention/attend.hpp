#pragma once
#include <array>
#include <optional>

#include "attention/kernel/kernel.hpp"
#include "attention/plan.hpp"
#include "attention/score/expression.hpp"
#include "fit/attention/attention.hpp"
#include "fit/graph/observer.hpp"

// Attention:
//   scores[i, j] = scale q[i] k[j] + bias[i, j] - alibi |place(i) - j|
//   weights[i]   = softmax of scores[i] over the keys j that query i attends to, and of the sink; 0 for other keys
//   out[i]       = sum over j of (weights[i, j] after dropout) v[j]
//
// Read the files in this order:
//   kernel/reference.hpp       the formula in loops
//   decomposition.cpp          the formula in operations; masked_matmul.hpp: products that leave masked pairs out
//   visibility/visibility.hpp  which query attends to which key; plan.hpp makes its tiles from masks; masks.cpp: masks
//   attend.cpp                 the operation; arguments.cpp: its checks; adjoint.cpp: its gradient
//   event.cpp                  observers
//   kernel/kernel.hpp          the kernel's interface; kernel.cpp and tasks.hpp cut a call into tasks
//   kernel/tiles.simd.cpp      the tiles of a task; rows.hpp: the rows of a tile; tiles.hpp: the products of a tile
//   score/expression.hpp       lambdas for masks and scores, as steps; kernel/score_rows.simd.cpp computes them
namespace fit::detail {

/// A call of attention. check_call() makes it, plan_tiles() says which pairs attend.
struct AttentionCall {
  const char* op;                           // the public function, whose name is in errors
  const AttentionOptions& options;          // what the caller asks for
  std::array<Heads, 3> operands;            // q, k, v; k and v of all keys, once the cache has theirs
  DType result = float32;                   // of the output; a cache may compute in another type
  kernels::Attention<> a = {};              // sizes and numbers; Sk includes the keys of the cache
  Tensor bias = {}, alibi = {}, sink = {};  // in the type of the scores; the bias (B|1, H|1, 1|Sq, Sk)
  std::optional<Expression> attends = {}, score = {};
  TilePlan plan = {};  // a.tiles points to it

  const Heads& q() const { return operands[0]; }
  const Heads& k() const { return operands[1]; }
  const Heads& v() const { return operands[2]; }
  DType dtype() const { return q().x.dtype(); }  // of the kernel's operands
  Shape scores() const { return {a.B, a.H, a.Sq, a.Sk}; }
  /// Whether a size is 0: there is nothing for the kernel.
  bool empty() const { return a.B == 0 || a.H == 0 || a.Sq == 0 || a.Sk == 0 || a.D == 0 || a.Dv == 0; }
  /// The shapes of the results. That of lse has no last axis.
  Shape output_shape() const {
    return q().layout == HeadLayout::first ? q().x.shape().with(q().x.rank() - 1, a.Dv) : Shape{a.B, a.Sq, a.H * a.Dv};
  }
  Shape weights_shape() const {
    return q().layout == HeadLayout::first ? q().x.shape().with(q().x.rank() - 1, a.Sk) : scores();
  }
  /// The heads of an output y.
  Heads contexts(const Tensor& y) const {
    return {y, q().layout == HeadLayout::first ? HeadLayout::first : HeadLayout::last, a.H, a.Dv, 0};
  }
};

/// fit::attend() for the public function `op`.
AttentionResult attend(const char* op, const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options);

/// A call with everything checked but the mask, which plan_tiles() checks. Nothing is drawn or written. The options
/// must outlive the call.
AttentionCall check_call(const char* op, std::array<Heads, 3> operands, const AttentionOptions& options);

/// The rules for the numbers of the options, whoever holds them: dropout, temperature, scale and window.
void check_numbers(const char* op, const AttentionOptions& options);

/// The first operand that is a part of the same tensor as operand i. Parts of one tensor share an input of the node.
std::size_t input_of(const std::array<Heads, 3>& operands, std::size_t i);

/// The features of heads that are not first, [B, S, heads features].
Tensor features_of(const Heads& h);

/// x as [B, heads, S, features].
Tensor split_heads(const Heads& h);

/// Attention by operations: the definition, which is differentiated again for second derivatives. k and v may have more
/// positions than a.Sk, as in a cache. edits: the call, if observers change it, or null.
AttentionResult decomposed_attention(const AttentionCall& call, const AttentionInfo* edits = nullptr);

/// The scores, [B, H, Sq, Sk], -inf for masked pairs, without a graph.
Tensor attention_scores(const AttentionCall& call);

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

// ---- the kernel's results and its node (adjoint.cpp) --------------------------------------------------------------

/// What the kernel made of a call.
struct Computed {
  AttentionResult result;  // weights and lse if they were asked for
  Tensor stats;            // [2, B, H, Sq]: both numbers of each row, see SoftmaxStats
  bool check = false;      // see kernels::AttentionBackward
};

/// Records a node for a call, if a graph is built. The results become its outputs.
void record_call(const AttentionCall& call, Computed& computed);

// ---- observers (event.cpp) ---------------------------------------------------------------------------------------

/// What observers learn of a call; nothing if no one asks.
std::optional<AttentionInfo> observed_call(const AttentionCall& call);

/// Tells the observers of a call; weights(first, count) computes the weights of elements of the batch.
void notify_attention(const AttentionInfo& info, AttentionEvent::Weights weights);

/// Offers heads to the observers as a value [B, heads, S, features] (see fit/graph/named_values.hpp). Returns h itself
/// unless they replace it.
Heads observed_heads(const char* name, const Heads& h);

/// Whether an observer changes a call.
bool edits_attention(const AttentionInfo& info);

/// x, or the tensor that the observers of a call put there instead. edit: Observer::edit_scores, ….
Tensor edited_attention(const AttentionInfo& info, const char* name,
                        void (Observer::*edit)(const AttentionInfo&, Tensor&), Tensor x);

}  // namespace fit::detail
