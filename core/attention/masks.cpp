// Masks for attention, and what a picture of its weights needs.
#include "attention/plan.hpp"
#include "fit/attention/attention.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit {

Tensor create_look_ahead_mask(std::int64_t n) {
  check::not_negative("create_look_ahead_mask", "the length", n);
  return detail::pairs_mask(kernels::Visibility{n, n, true}).alias({1, n, n});
}

Tensor create_padding_mask(const Tensor& ids, std::int64_t pad_token_id) {
  constexpr const char* op = "create_padding_mask";
  check::dtype(op, "ids", ids, int64);
  if (ids.rank() != 2) check::fail(op, "ids is ", ids.shape(), ": it must be (B, S)");
  return unsqueeze(ne(ids, pad_token_id), 1);
}

MaskAndBias mask_from_torch(const Tensor& mask, TorchMask kind, std::int64_t num_heads) {
  constexpr const char* op = "mask_from_torch";
  check::defined(op, "mask", mask);
  if (mask.dtype() == int64)
    check::fail(op, "mask is int64: PyTorch's masks are boolean, or floating and added to the scores; 0 and 1 become ",
                "false and true with .to(boolean)");
  const Shape& s = mask.shape();
  Shape ours;
  if (kind == TorchMask::key_padding) {
    if (s.rank() == 1) ours = {1, 1, 1, s[0]};
    if (s.rank() == 2) ours = {s[0], 1, 1, s[1]};
    if (ours.rank() == 0) check::fail(op, "a key padding mask of shape ", s, ": it must be (Sk) or (B, Sk)");
  } else if (kind == TorchMask::multihead) {
    if (s.rank() == 2) ours = {1, 1, s[0], s[1]};
    if (s.rank() == 3 && num_heads > 0 && s[0] % num_heads == 0) ours = {s[0] / num_heads, num_heads, s[1], s[2]};
    if (ours.rank() == 0)
      check::fail(op, "a multihead mask of shape ", s, ", num_heads ", num_heads,
                  ": it must be (Sq, Sk) or (B num_heads, Sq, Sk)");
  } else {
    if (s.rank() == 2) ours = {1, 1, s[0], s[1]};
    if (s.rank() == 4) ours = s;
    if (s.rank() == 3) ours = s.inserted(0, 1);
    if (ours.rank() == 0)
      check::fail(op, "an sdpa mask of shape ", s, ": it must be (Sq, Sk), (H|1, Sq, Sk) or (B|1, H|1, Sq, Sk)");
  }
  const Tensor shaped = reshape(mask, ours);
  if (mask.dtype() != boolean) return {{}, shaped};
  return {kind == TorchMask::sdpa ? shaped : logical_not(shaped), {}};
}

Tensor combine_masks(const Tensor& a, const Tensor& b) {
  constexpr const char* op = "combine_masks";
  const auto four_axes = [&](const char* name, const Tensor& given) {
    const Shape four = detail::mask_axes(given.shape());
    if (four.rank() != 4)
      check::fail(op, name, " is ", given.shape(), ": it must be (1|Sq, Sk), (B|1, 1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk)");
    return detail::boolean_mask(op, given, four);
  };
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return logical_and(four_axes("a", a), four_axes("b", b));
}

AttentionView attention_visualization_helper(const Tensor& weights, const std::vector<std::string>& tokens) {
  constexpr const char* op = "attention_visualization_helper";
  check::defined(op, "weights", weights);
  const int rank = weights.rank();
  if (rank < 2 || rank > 4 || weights.numel() == 0)
    check::fail(op, "weights is ", weights.shape(),
                ": it must be (B, H, Sq, Sk), (B, Sq, Sk) or (Sq, Sk), with at least one of each");
  const std::int64_t heads = rank == 4 ? weights.size(1) : 1, queries = weights.size(-2), keys = weights.size(-1);
  AttentionView view{{}, tokens, 0, {}};
  if (tokens.empty())
    for (std::int64_t i = 0; i < queries; ++i) view.tokens.push_back("Token_" + std::to_string(i));
  if (static_cast<std::int64_t>(view.tokens.size()) != queries)
    check::fail(op, tokens.size(), " tokens for weights ", weights.shape(), ": there must be one for each of the ",
                queries, " queries");

  const Tensor exact = reshape(weights.detach().to(float64), {-1, heads, queries, keys});
  const Tensor p = mean(Tensor(exact[0]), 0);
  view.attention_matrix = p;
  view.attention_entropy = 0 - sum(p * log(masked_fill(p, p == 0, 1)), -1);  // 0 log 0 is 0
  view.max_attention = max(view.attention_matrix).item();
  return view;
}

}  // namespace fit
