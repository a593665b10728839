#pragma once
#include "fit/attention.hpp"
#include "kernels/attention.hpp"

// Attention below its public face: arguments are checked and have four axes.
namespace fit::detail {

/// Where the heads of q, k and v lie: [B, H, S, D] or [B, S, H, D].
enum class Heads { first, last };

/// What a call of attention is, beside q, k, v and how they lie.
struct AttentionCall {
  Tensor mask;           // boolean (B|1, H|1, 1|Sq, Sk), or undefined
  Tensor bias;           // of q's type, (B|1, H|1, 1|Sq, Sk), or undefined
  bool causal;           // j <= i + Sk - Sq
  std::int64_t window;   // j > i + Sk - Sq - window, or 0
  double scale;          // of the scores
  double dropout;        // probability
  std::uint64_t seed;    // the draw of the dropout: what is dropped depends on these and on the
  std::uint64_t number;  // index of the weight in (B, H, Sq, Sk)
};

/// The arguments as they must be for q, k and v with four axes; throws Error in the name of `op` if they don't fit.
/// Draws the number of the dropout from the generator, if there is dropout.
AttentionCall check_attention(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, Heads heads,
                              const AttentionOptions& options);

/// The part of it that does not depend on q, k and v themselves: scores is (B, H, Sq, Sk), features D.
AttentionCall check_call(const char* op, const Shape& scores, std::int64_t features, DType dtype,
                         const AttentionOptions& options);

/// The definition of attention, as the paper has it, made of operations. It is what any faster form is checked against,
/// and what derivatives of higher order are taken of. k and v have Hkv heads, which divides H.
AttentionResult composed_attention(const Tensor& q, const Tensor& k, const Tensor& v, Heads heads,
                                   const AttentionCall& call);

/// The same without storing anything of the scores' size, but for the weights if they are asked for. Nothing where the
/// composed form has to serve: where operands or scores aren't finite behind a mask, or a row has no softmax.
std::optional<AttentionResult> fused_attention(const Tensor& q, const Tensor& k, const Tensor& v, Heads heads,
                                               const AttentionCall& call, bool weights);

/// Numbers over the scores, (B|1, H|1, 1|Sq, Sk), with strides of 0 where they broadcast; nothing if x is undefined.
template <class T>
kernels::Heads<T> over_scores(T* data, const Tensor& x) {
  if (!x.defined()) return {};
  const Shape& s = x.shape();
  const auto stride = [&](int axis, std::int64_t step) { return s[axis] == 1 ? 0 : step; };
  return {data, stride(0, s[1] * s[2] * s[3]), stride(1, s[2] * s[3]), stride(2, s[3])};
}
template <class T>
kernels::Heads<const T> over_scores(const Tensor& x) {
  return over_scores(x.defined() ? static_cast<const T*>(x.raw()) : nullptr, x);
}

/// Boolean (1, 1, Sq, Sk): j > i + Sk - Sq - window.
Tensor window_mask(std::int64_t queries, std::int64_t keys, std::int64_t window);

/// Boolean (1, 1, Sq, Sk): j <= i + Sk - Sq.
Tensor causal_mask(std::int64_t queries, std::int64_t keys);

/// The three products of attention, over visible pairs of query and key. In each s is (B, H, Sq, Sk), x stands in the
/// queries' place and y in the keys', laid out as `heads` says; `visible` is boolean (B|1, H|1, 1|Sq, Sk), or undefined
/// where all pairs are. s must be 0 at hidden pairs, and what visible_scores gives there is not to be read. With that
/// these are plain products; but a head that isn't finite is computed pair by pair, so that nothing hidden comes in.
Tensor visible_scores(const Tensor& x, const Tensor& y, const Tensor& visible, Heads heads);      // s = x y^T
Tensor visible_to_queries(const Tensor& s, const Tensor& y, const Tensor& visible, Heads heads);  // x = s y
Tensor visible_to_keys(const Tensor& s, const Tensor& x, const Tensor& visible, Heads heads);     // y = s^T x

}  // namespace fit::detail
