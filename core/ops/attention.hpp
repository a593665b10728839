#pragma once
#include <vector>

#include "fit/attention.hpp"
#include "fit/autocast.hpp"
#include "kernels/attention.hpp"
#include "tensor/convert.hpp"

// Attention below its public face.
namespace fit::detail {

/// How the heads of q, k and v lie.
enum class HeadLayout {
  first,   // q [B, H, Sq, D], k [B, Hkv, Sk, D], v [B, Hkv, Sk, Dv]
  last,    // q [B, Sq, H, D], k [B, Sk, Hkv, D], v [B, Sk, Hkv, Dv]
  packed,  // one tensor [B, S, (H + 2 Hkv) D] with queries, keys and values side by side
};

/// A call of attention in plain values, for an adjoint to hold. Its operands are a vector: q, k, v, or qkv.
struct AttentionCall : kernels::AttentionParams {
  HeadLayout layout = HeadLayout::first;
  Shape output, weights;  // as the caller gets them

  int operands() const { return layout == HeadLayout::packed ? 1 : 3; }
};

/// What is added to the scores, or hides them.
struct ScoreTerms {
  Tensor mask;   // boolean (B|1, H|1, 1|Sq, Sk), or undefined
  Tensor bias;   // of the scores' type, (B|1, H|1, 1|Sq, Sk), or undefined
  Tensor alibi;  // of the scores' type, [H], or undefined
};

/// The sizes of a call; each throws Error in the name of `op` if the shapes don't fit.
AttentionCall separate_heads(const char* op, const Tensor& q, const Tensor& k, const Tensor& v);
AttentionCall joined_heads(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t num_heads);
AttentionCall packed_heads(const char* op, const Tensor& qkv, std::int64_t num_heads, std::int64_t num_kv_heads);

/// Puts the options into the call; throws Error if they don't fit. Draws the number of the dropout from the generator,
/// if there is dropout.
ScoreTerms apply_options(const char* op, AttentionCall& call, DType dtype, const AttentionOptions& options);

void check_dropout(const char* op, double probability);

/// Attention: in tiles (kernels/attention.hpp), which store nothing of the scores' size but the weights if they are
/// asked for. What tiles can't do is left to the composed form: operands without elements, gradients of the weights,
/// and gradients of gradients.
enum class Want { output, weights_too };
AttentionResult attend(const char* op, AttentionCall call, const std::vector<Tensor>& operands,
                       const AttentionOptions& options, Want want);

class AttentionEdits;

/// The definition of attention, as the paper has it, made of operations. edits: observers who change what is computed,
/// or null.
AttentionResult composed_attention(const AttentionCall& call, const std::vector<Tensor>& operands,
                                   const ScoreTerms& terms, const AttentionEdits* edits = nullptr);

/// What attention computes with: under Autocast bfloat16 in place of float32.
inline Tensor attention_operand(const Tensor& x) {
  return x.defined() && x.dtype() == float32 ? x.to(autocast_dtype()) : x;
}

/// Heads [B, S, H, D] if `last`, else [B, H, S, D].
template <class T>
kernels::HeadView<T> view_heads(T* data, bool last, std::int64_t H, std::int64_t S, std::int64_t D) {
  return last ? kernels::HeadView<T>{data, S * H * D, D, H * D} : kernels::HeadView<T>{data, H * S * D, S * D, D};
}

/// Heads from feature `at` of rows of x [B, S, features] on.
template <class T>
kernels::HeadView<T> view_part(T* data, const Shape& x, std::int64_t at, std::int64_t D) {
  return {data + at, x[1] * x[2], D, x[2]};
}

/// Numbers over the scores, (B|1, H|1, 1|Sq, Sk), with strides of 0 where they broadcast; nothing if x is undefined.
template <class T>
kernels::HeadView<T> view_over_scores(T* data, const Tensor& x) {
  if (!x.defined()) return {};
  const Shape& s = x.shape();
  const auto stride = [&](int axis, std::int64_t step) { return s[axis] == 1 ? 0 : step; };
  return {data, stride(0, s[1] * s[2] * s[3]), stride(1, s[2] * s[3]), stride(2, s[3])};
}

/// The call as the kernels take it, but for q, k and v.
template <class T>
kernels::Attention<T> with_terms(const AttentionCall& call, const ScoreTerms& terms) {
  const auto data = [](const Tensor& x) { return x.defined() ? x.raw() : nullptr; };
  kernels::Attention<T> a;
  static_cast<kernels::AttentionParams&>(a) = call;
  a.mask = view_over_scores(static_cast<const bool*>(data(terms.mask)), terms.mask);
  a.bias = view_over_scores(static_cast<const Wide<T>*>(data(terms.bias)), terms.bias);
  a.alibi = static_cast<const Wide<T>*>(data(terms.alibi));
  return a;
}

/// Boolean (1, 1, Sq, Sk): j > i + Sk - Sq - window.
Tensor window_mask(std::int64_t queries, std::int64_t keys, std::int64_t window);

/// Boolean (1, 1, Sq, Sk): j <= i + Sk - Sq.
Tensor causal_mask(std::int64_t queries, std::int64_t keys);

/// -slopes[h] |i + Sk - Sq - j|, (1, H, Sq, Sk).
Tensor alibi_bias(const Tensor& slopes, std::int64_t queries, std::int64_t keys, DType dtype);

/// The three products of attention, over visible pairs of query and key. In each s is (B, H, Sq, Sk), x stands in the
/// queries' place and y in the keys', laid out as `heads` says (not packed); `visible` is boolean (B|1, H|1, 1|Sq, Sk),
/// or undefined where all pairs are. s must be 0 at hidden pairs, and what masked_qk gives there is not to be
/// read. With that these are plain products; but a head that isn't finite is computed pair by pair, so that nothing
/// hidden comes in.
Tensor masked_qk(const Tensor& x, const Tensor& y, const Tensor& visible, HeadLayout heads);    // s = x y^T
Tensor masked_pv(const Tensor& s, const Tensor& y, const Tensor& visible, HeadLayout heads);    // x = s y
Tensor masked_pt_q(const Tensor& s, const Tensor& x, const Tensor& visible, HeadLayout heads);  // y = s^T x

}  // namespace fit::detail
