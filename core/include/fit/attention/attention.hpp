#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/attention/score/score.hpp"
#include "fit/base/option.hpp"
#include "fit/tensor/random.hpp"
#include "fit/tensor/tensor.hpp"

/// Scaled dot-product attention (Vaswani et al. 2017): softmax(Q K^T / sqrt(D)) V, with masks, and the masks' makers.
///
/// B is the batch, H the heads, Sq and Sk the numbers of queries and keys, D the features of a head. The scores have
/// the shape (B, H, Sq, Sk); input without a batch or without heads counts as B = 1 or H = 1.
///
///     Tensor y = scaled_dot_product_attention(q, k, v, AttentionOptions().causal());
///     auto [z, weights] = attend(q, k, v, AttentionOptions().causal().weights());
///
/// z is y, bit for bit.
///
/// All functions call attend(), which takes heads in any layout and also returns weights and lse. The others are its
/// short forms for one layout: they return the output alone.
namespace fit {

/// Which query attends to which key, and what is added to the scores. A mask alone stands for one.
struct AttentionTerms {
  AttentionTerms() {}
  AttentionTerms(const Tensor& mask) : mask_(mask) {}
  AttentionTerms(const AttentionMask& attends) : attends_(attends) {}

  /// 1 (true) = attend, 0 = ignore: boolean, or numbers that are 0 or 1. Of shape (1|Sq, Sk), (B|1, 1|Sq, Sk) or
  /// (B|1, H|1, 1|Sq, Sk), whatever the sizes happen to be. A constant: it must not want a gradient. PyTorch's masks:
  /// see mask_from_torch().
  FIT_OPTION(Tensor, mask);
  /// Floating, added to the scaled scores (relative positions, ALiBi): (1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk). Three axes
  /// could be (B, Sq, Sk) or (H, Sq, Sk): they are refused, unless the input has no heads. It may want a gradient. A
  /// row whose scores are all -inf without a mask has no softmax and gives NaN: use the mask to mask keys.
  FIT_OPTION(Tensor, bias);
  /// Slopes [H], floating: alibi[h] |i + Sk - Sq - j| is subtracted from the scores (attention with linear biases,
  /// Press et al. 2022; nn::alibi_slopes() has the paper's). It takes no memory of the scores' size. A constant: no
  /// gradient reaches it.
  FIT_OPTION(Tensor, alibi);
  /// A logit for each head [H], floating: it takes part in the softmax, as a key without a value would, so a query can
  /// attend to nothing (StreamingLLM, Xiao et al. 2024; gpt-oss, OpenAI 2025). The weights of a row then sum to less
  /// than 1. With zeros the softmax is e^x / (1 + sum of e^x), "off by one". It may want a gradient.
  FIT_OPTION(Tensor, sink);
  /// Query i attends to the keys j <= i + Sk - Sq: the last query to all of them. Combines with the mask.
  FIT_OPTION(bool, causal) = false;
  /// Query i attends to the keys at a distance |i + Sk - Sq - j| < window: on both sides, and with causal those back.
  /// 0: all. Combines with the mask and with causal.
  FIT_OPTION(std::int64_t, window) = 0;
  /// A mask as an expression (fit/attention/score/score.hpp): `[&](At at) { return at.query - at.key < 64; }`,
  /// document_mask(ids) …. Combines with the mask, causal and window. The tensors that it captured are constants.
  /// Nothing of the scores' size is stored.
  FIT_OPTION(AttentionMask, attends);
  /// A function of the scores (fit/attention/score/score.hpp), after scale, bias and alibi: `[](Score s, At) { return
  /// tanh(s); }`. Gradients reach the tensors that it captured. Nothing of the scores' size is stored.
  FIT_OPTION(ScoreFunction, score);
};

/// Keys [B, Hkv, Tmax, D] and values [B, Hkv, Tmax, Dv] of earlier positions; the first `length` positions are filled.
struct AttentionCache {
  Tensor keys, values;
  std::int64_t length = 0;
};

/// The options of a call of attention.
struct AttentionOptions : AttentionTerms {
  AttentionOptions() {}
  explicit AttentionOptions(const AttentionTerms& terms) : AttentionTerms(terms) {}

  /// The probability with which a weight is dropped (the others grow by 1 / (1 - p)). It is in force: a layer passes 0
  /// in evaluation.
  FIT_OPTION(double, dropout) = 0;
  /// The factor of the scores, instead of 1 / (sqrt(D) * temperature).
  FIT_OPTION(std::optional<double>, scale);
  /// Above 1 the weights become more alike, below 1 less.
  FIT_OPTION(double, temperature) = 1;
  /// The source of the random numbers of dropout; the default generator if null.
  FIT_OPTION(Generator*, generator) = nullptr;
  /// attend() computes the weights, too. The functions that return the output alone throw Error.
  FIT_OPTION(bool, weights) = false;
  /// attend() computes the logarithm of the softmax's denominator, too. Otherwise as `weights`.
  FIT_OPTION(bool, lse) = false;
  /// k and v are written behind the positions of the cache, and the queries attend to all of them. The heads must be
  /// last. Nothing is recorded or dropped.
  FIT_OPTION(std::optional<AttentionCache>, cache);
  FIT_INHERITED_OPTIONS(AttentionTerms, mask, bias, alibi, sink, causal, window, attends, score)
};

/// The result of attend(). What was not asked for is undefined. `auto [output, weights] = …` names the first two.
struct AttentionResult {
  /// As without weights and lse, bit for bit.
  Tensor output;
  Tensor weights;  ///< of the scores' shape, before dropout, differentiable
  /// (B, H, Sq), differentiable: log of the sum of e^score over the keys that the query attends to, and of e^sink. -inf
  /// for a fully masked query without a sink. float32 for bfloat16 operands.
  Tensor lse{};
};

/// For `auto [output, weights] = …`: part I of a result.
template <std::size_t I, class Result, class = std::enable_if_t<std::is_same_v<std::decay_t<Result>, AttentionResult>>>
decltype(auto) get(Result&& r) {
  if constexpr (I == 0)
    return (std::forward<Result>(r).output);
  else
    return (std::forward<Result>(r).weights);
}

/// Where heads lie in a tensor.
enum class HeadLayout {
  first,  ///< x is (B, H, S, D), (B, S, D) or (S, D)
  last,   ///< x is [B, S, H D], as a projection gives it
  part,   ///< the same in some features of x [B, S, F]
};

/// An operand of attend(): queries, keys or values, as heads_first(), heads_last(), part() and packed_heads() make it.
/// A tensor alone has its heads first.
struct Heads {
  Heads() {}
  Heads(const Tensor& of, HeadLayout where = HeadLayout::first, std::int64_t number = 0, std::int64_t size = 0,
        std::int64_t first = 0)
      : x(of), layout(where), heads(number), features(size), offset(first) {}

  Tensor x;
  HeadLayout layout = HeadLayout::first;
  std::int64_t heads = 0;     ///< for keys and values with heads last, 0: as many as their features make
  std::int64_t features = 0;  ///< of each head; 0 unless the layout is `part`
  std::int64_t offset = 0;    ///< the first feature of a part
};
/// x (B, H, S, D), (B, S, D) or (S, D).
Heads heads_first(const Tensor& x);
/// x [B, S, heads * D]. Keys and values need no number of heads.
Heads heads_last(const Tensor& x, std::int64_t heads = 0);
/// The features offset … offset + heads * features - 1 of x [B, S, F]. The gradient of x is one tensor for all parts;
/// parts of one tensor must not overlap.
Heads part(const Tensor& x, std::int64_t offset, std::int64_t heads, std::int64_t features);
/// The queries, keys and values that one projection gives side by side, qkv [B, S, (H + 2 Hkv) D]. num_kv_heads 0: as
/// many as num_heads. Throws Error for another shape.
std::array<Heads, 3> packed_heads(const Tensor& qkv, std::int64_t num_heads, std::int64_t num_kv_heads = 0);

/// Attention to all keys from its parts: `parts` have the output and lse of the same queries for parts of the keys. So
/// keys may be divided among calls or machines. With L = log(sum over the parts of e^lse):
///
///     output = sum over the parts of e^(lse - L) output,  lse = L
///
/// Exact, for attention without dropout; a part that a query does not attend to (lse -inf) has no effect on it. A sink
/// belongs to one part only. Differentiable. Throws Error if there is no part, a part without lse, or if shapes differ.
AttentionResult merge_attention(const std::vector<AttentionResult>& parts);

/// Attention of q to k and v, whose heads lie anywhere. The output has the layout of q: (…, Sq, Dv) with heads first,
/// else [B, Sq, H Dv]. Weights (…, Sq, Sk) or (B, H, Sq, Sk), and lse of that shape without Sk, if the options ask for
/// them: AttentionOptions().weights().lse(). The functions below say more.
AttentionResult attend(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options = {});

/// q (…, Sq, D), k (…, Sk, D), v (…, Sk, Dv) -> (…, Sq, Dv), where … is (B, H), (B) or nothing, and is the same for all
/// three. Except for grouped heads: several heads of q may share one head of k and v, and H of k divides H of q.
///
/// A fully masked query, which may attend to no key, gets zero weights and a zero output, and passes no gradient. A key
/// that a query may not attend to (by mask, causality or window) has no effect on it, neither on its output nor on
/// gradients, even if it is NaN. A key that it attends to takes part even if its weight is 0, by underflow or by
/// dropout: 0 times NaN is NaN. So a NaN or an infinity in q, k, v or bias always shows, unless it is masked.
/// Throws Error for shapes that don't fit, types other than one floating type, a mask, bias, alibi or sink of another
/// shape, a mask with other values than 0 and 1, dropout outside 0 … 1, a temperature that is not positive, a negative
/// window, a scale that is not finite in the type of q, and options that ask for weights or lse.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

/// The same for heads that lie side by side in the last axis, as a projection leaves them, so that nothing is copied to
/// split or merge them: q [B, Sq, H D], k [B, Sk, Hkv D], v [B, Sk, Hkv Dv] -> [B, Sq, H Dv]. H is num_heads; Hkv comes
/// from the width of k and must divide H.
Tensor multi_head_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t num_heads,
                            const AttentionOptions& options = {});

/// Self-attention of what one projection gives, queries, keys and values side by side, read and differentiated in
/// place: qkv [B, S, (H + 2 Hkv) D] -> [B, S, H D]. num_kv_heads 0 stands for as many as num_heads.
Tensor packed_self_attention(const Tensor& qkv, std::int64_t num_heads, const AttentionOptions& options = {},
                             std::int64_t num_kv_heads = 0);

/// The next S positions of sequences whose earlier keys and values are kept: `keys` are [B, Hkv, Tmax, D], `values`
/// [B, Hkv, Tmax, Dv]; the first `length` positions are filled. Writes k [B, S, Hkv D] and v [B, S, Hkv Dv] behind
/// them, and gives the attention of q [B, S, H D] to all length + S: [B, S, H Dv]. A mask or bias is one for scores (B,
/// H, S, length + S). bfloat16 keys and values are multiplied by queries rounded to bfloat16, and the context is
/// rounded, too. Records nothing, and drops nothing. Throws Error as multi_head_attention() does, if length is negative
/// or length + S is more than Tmax, and if keys, values and an input share memory; then nothing has been written.
Tensor cached_attention(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& keys, Tensor& values,
                        std::int64_t length, std::int64_t num_heads, const AttentionOptions& options = {});
/// The same for queries, keys and values side by side: qkv [B, S, (H + 2 Hkv) D].
Tensor cached_self_attention(const Tensor& qkv, Tensor& keys, Tensor& values, std::int64_t length,
                             std::int64_t num_heads, const AttentionOptions& options = {});

// ---- masks --------------------------------------------------------------------------------------------------------

/// ids [B, S] (int64) -> boolean (B, 1, S): true where there is a token, false where there is padding.
Tensor create_padding_mask(const Tensor& ids, std::int64_t pad_token_id = 0);
/// Boolean (1, n, n), true on and below the diagonal: the same as AttentionOptions::causal, which is faster.
Tensor create_look_ahead_mask(std::int64_t n);

/// Both masks at once, boolean with four axes: each is read as attention reads it, (1|Sq, Sk), (B|1, 1|Sq, Sk) or
/// (B|1, H|1, 1|Sq, Sk). (`a && b` aligns axes from the right, and takes the B of three axes for the H of four.) An
/// undefined mask allows all pairs.
Tensor combine_masks(const Tensor& a, const Tensor& b);

/// The function of PyTorch that takes a mask. It decides what the mask means.
enum class TorchMask {
  key_padding,  ///< nn.MultiheadAttention's key_padding_mask, (Sk) or (B, Sk): true = ignore
  multihead,    ///< nn.MultiheadAttention's attn_mask, (Sq, Sk) or (B H, Sq, Sk): true = ignore
  sdpa,  ///< F.scaled_dot_product_attention's attn_mask, (Sq, Sk), (H|1, Sq, Sk) or (B|1, H|1, Sq, Sk): true = attend
};
struct MaskAndBias {
  Tensor mask, bias;  ///< one is defined
};
/// PyTorch's mask as ours, with four axes: a boolean one becomes a mask, a floating one (which is added) a bias.
/// Only a multihead mask of three axes needs num_heads. Throws Error for int64.
MaskAndBias mask_from_torch(const Tensor& mask, TorchMask kind, std::int64_t num_heads = 1);

// ---- looking at weights -------------------------------------------------------------------------------------------

/// What attention_visualization_helper() makes of weights.
struct AttentionView {
  Tensor attention_matrix;          ///< [Sq, Sk], float64: the mean over the heads of the first batch
  std::vector<std::string> tokens;  ///< one for each query; Token_0, Token_1, … if none were given
  double max_attention;             ///< the largest of the matrix
  Tensor attention_entropy;         ///< [Sq], float64: -sum p ln p in nats, where 0 ln 0 = 0
};
/// What a picture of the weights (B, H, Sq, Sk), (B, Sq, Sk) or (Sq, Sk) needs. Throws Error if there is nothing in
/// them, or if there are tokens, but not Sq of them.
AttentionView attention_visualization_helper(const Tensor& weights, const std::vector<std::string>& tokens = {});

}  // namespace fit

template <>
struct std::tuple_size<fit::AttentionResult> : std::integral_constant<std::size_t, 2> {};
/// The type of a part of a result.
template <std::size_t I>
struct std::tuple_element<I, fit::AttentionResult> {
  using type = fit::Tensor;  ///< Each part is a tensor.
};
