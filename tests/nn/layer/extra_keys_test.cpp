// MultiHeadAttention with keys behind the others, beside PyTorch's (tests/golden/training.py).
#include "fit/graph/graph.hpp"
#include "fit/io/npz.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::extra_keys_test {
using Catch::Contains;
using fit::test::max_difference;
using fit::test::same_bits;

namespace {

nn::MultiHeadAttentionOptions with(const std::string& name) {
  return nn::MultiHeadAttentionOptions().dropout(0).add_bias_kv(name != "zero").add_zero_attn(name != "bias");
}

}  // namespace

TEST_CASE("attention to further keys agrees with PyTorch", "[golden]") {
  const StateDict all = load_npz(FIT_GOLDEN_DIR "/training.npz");
  for (const std::string name : {"bias", "zero", "both"}) {
    INFO(name);
    const StateDict golden = under(all, "attention/" + name + '/');
    nn::MultiHeadAttention attention(8, 2, with(name));
    attention.to(float64);
    const nn::NameMap map = nn::torch_names(attention);
    nn::load_weights(attention, under(golden, "state/"), map);
    Tensor query = at(golden, "query").clone().requires_grad_(), memory = at(golden, "memory").clone().requires_grad_();
    AttentionTerms masks(combine_masks(at(all, "attention/padding").unsqueeze(1), at(all, "attention/mask")));
    const auto [output, weights] = attention(query, memory, memory, masks, nn::return_attention);
    CHECK(max_difference(output.detach(), at(golden, "output")) < 1e-13);
    CHECK(max_difference(weights.detach(), at(golden, "weights")) < 1e-13);
    CHECK(same_bits(attention(query, memory, memory, masks).detach(), output.detach()));
    sum(output * at(golden, "d")).backward();
    CHECK(max_difference(query.grad(), at(golden, "grad/query")) < 1e-13);
    CHECK(max_difference(memory.grad(), at(golden, "grad/memory")) < 1e-13);
    const StateDict theirs = nn::to_ours(under(golden, "theirs/"), map);
    for (const auto& [of, p] : attention.named_parameters()) {
      INFO(of);
      CHECK(max_difference(p.grad(), at(theirs, of)) < 1e-12);
    }
    // Causality by the option, and a mask of numbers, are the same.
    auto causal = AttentionTerms(at(all, "attention/padding").unsqueeze(1).to(float64)).causal();
    CHECK(same_bits(attention(query, memory, memory, causal).detach(), output.detach()));
    causal.window(5);
    CHECK(same_bits(attention(query, memory, memory, causal).detach(), output.detach()));
    causal.window(1);
    CHECK_FALSE(same_bits(attention(query, memory, memory, causal).detach(), output.detach()));
    masks.bias(zeros({4, 5}, float64));
    CHECK(max_difference(attention(query, memory, memory, masks).detach(), output.detach()) < 1e-14);
  }
}

TEST_CASE("a query that sees no other key attends to the further ones") {
  nn::MultiHeadAttention attention(4, 2, with("both"));
  const Tensor x = randn({1, 3, 4});
  const auto weights = attention(x, x, x, zeros({1, 3}, boolean), nn::return_attention).weights;
  CHECK(weights.shape() == Shape{1, 2, 3, 5});
  CHECK(max(abs(weights[{ellipsis, range(0, 3)}])).item() == 0);
  CHECK(max_difference(sum(weights, -1).detach(), ones({1, 2, 3})) < 1e-6);
  const auto alibi = AttentionTerms().alibi(ones({2}));
  CHECK_THROWS_WITH(attention(x, x, x, alibi), Contains("alibi is given, and add_bias_kv or add_zero_attn is on"));
  const auto score = AttentionTerms().score([](Score s, At at) { return s + where(at.query == at.key, 100., 0.); });
  CHECK_THROWS_WITH(attention(x, x, x, score), Contains("score is given, and add_bias_kv or add_zero_attn is on"));
  nn::KVCache cache({{2, 2}}, 1, 3);
  nn::AttentionContext next;
  next.cache = cache.past(0);
  CHECK_THROWS_WITH(attention(x, x, x, next), Contains("a cache has no place for such keys"));
  nn::KVCache::Layer past{zeros({1, 2, 1, 2}), zeros({1, 2, 1, 2})};
  next.cache.reset();
  next.past = &past;
  CHECK_THROWS_WITH(attention(x, x, x, next), Contains("a cache has no place for such keys"));
  CHECK(past.keys.shape() == Shape{1, 2, 1, 2});
  CHECK_THROWS_WITH(attention(x, x, x, ones({1, 1, 5}, boolean)), Contains("the mask is [1, 1, 5], there are 3 keys"));
  const auto bias = AttentionTerms().causal().bias(zeros({3, 5}));
  CHECK_THROWS_WITH(attention(x, x, x, bias), Contains("the bias is [3, 5], there are 3 keys: they are its last axis"));
  CHECK_THAT(attention.str(), Contains("add_bias_kv=true, add_zero_attn=true"));
}

}  // namespace fit::test::extra_keys_test
