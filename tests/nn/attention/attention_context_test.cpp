// The context of attention layers: what it combines, refuses and passes on.
#include "fit/nn/attention/attention_context.hpp"

#include <functional>
#include <map>
#include <type_traits>

#include "fit/nn/attention/attention.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/option_names.hpp"
#include "support/tensors.hpp"

namespace fit::test::attention_context_test {

using Catch::Contains;

// A layer has its own dropout and scale: options for them would be dropped in silence.
static_assert(!std::is_convertible_v<AttentionOptions, nn::AttentionContext>);
static_assert(std::is_convertible_v<Tensor, nn::AttentionContext>);
static_assert(std::is_convertible_v<AttentionTerms, nn::AttentionContext>);

TEST_CASE("masks, causality and windows of a layer and of its call count both", "[attention]") {
  manual_seed(1);
  const Tensor q = randn({2, 2, 5, 4}), k = randn({2, 2, 5, 4}), v = randn({2, 2, 5, 4});
  const Tensor padding = tensor({{{true, true, true, true, false}}, {{true, true, true, true, true}}});
  const Tensor other = tensor({{true, false, true, true, true}});
  const auto output = [&](const AttentionTerms& terms, const AttentionTerms& own) {
    return nn::AttentionContext(terms).attend(q, k, v, AttentionOptions(own));
  };
  const auto expected = [&](const AttentionTerms& both) {
    return scaled_dot_product_attention(q, k, v, AttentionOptions(both));
  };
  CHECK(same_bits(output(padding, other), expected(combine_masks(padding, other))));
  CHECK(same_bits(output(padding, AttentionTerms().causal()), expected(AttentionTerms(padding).causal())));
  CHECK(same_bits(output(AttentionTerms().causal(), padding), expected(AttentionTerms(padding).causal())));
  CHECK(
      same_bits(output(AttentionTerms().window(2), AttentionTerms().window(3)), expected(AttentionTerms().window(2))));
  CHECK(
      same_bits(output(AttentionTerms().window(3), AttentionTerms().window(2)), expected(AttentionTerms().window(2))));
  CHECK(same_bits(output(AttentionTerms().window(3), {}), expected(AttentionTerms().window(3))));
  CHECK(same_bits(output({}, AttentionTerms().window(3)), expected(AttentionTerms().window(3))));
  const AttentionMask near = sliding_window_mask(2), first = global_tokens(1);
  CHECK(same_bits(output(near, first), expected(near & first)));
  CHECK_FALSE(same_bits(expected(near & first), expected(near)));
  CHECK_FALSE(same_bits(expected(near & first), expected(first)));
}

// Kernels that take some calls only, such as those of short heads in float, must not take one whose terms they lack.
TEST_CASE("every term counts, of the layer and of its call, in float as in double", "[attention][silent]") {
  const std::map<std::string, std::function<AttentionTerms(DType)>> cases{
      {"mask",
       [](DType) {
         return AttentionTerms(tensor({{true, false, true, true, true}}));
       }},
      {"bias",
       [](DType t) {
         return AttentionTerms().bias(sin(arange(25).to(t)).reshape({5, 5}));
       }},
      {"alibi",
       [](DType t) {
         return AttentionTerms().alibi(tensor({0.5, 0.25}).to(t));
       }},
      {"sink",
       [](DType t) {
         return AttentionTerms().sink(tensor({1.0, -1.0}).to(t));
       }},
      {"causal", [](DType) { return AttentionTerms().causal(); }},
      {"window", [](DType) { return AttentionTerms().window(2); }},
      {"attends", [](DType) { return AttentionTerms(AttentionMask([](At at) { return at.key != at.query; })); }},
      {"score", [](DType) { return AttentionTerms().score([](Score s, At) { return tanh(s); }); }}};
  manual_seed(1);
  const Tensor wide = randn({3, 2, 2, 5, 4}, float64);
  for (const std::string& name : option_names("AttentionTerms", "core/include/fit/attention/attention.hpp")) {
    INFO(name);
    REQUIRE(cases.count(name) == 1);
    Tensor reference;
    for (const DType t : {float64, float32}) {
      const Tensor all = wide.to(t), q = all[0], k = all[1], v = all[2];
      const AttentionTerms terms = cases.at(name)(t);
      const Tensor y = scaled_dot_product_attention(q, k, v, AttentionOptions(terms));
      CHECK(same_bits(nn::AttentionContext(terms).attend(q, k, v), y));
      CHECK(same_bits(nn::AttentionContext().attend(q, k, v, AttentionOptions(terms)), y));
      CHECK_FALSE(allclose(y, scaled_dot_product_attention(q, k, v), 1e-3, 1e-3));
      if (t == float64) reference = y;
      CHECK(allclose(y.to(float64), reference, 1e-5, 1e-5));
    }
  }
}

TEST_CASE("what only one of a layer and its call can have is an Error", "[attention]") {
  const Tensor x = randn({1, 2, 3, 4}), bias = randn({3, 3}), heads = ones({2});
  const ScoreFunction cap = [](Score s, At) { return tanh(s); };
  const auto both = [&](const AttentionTerms& t) {
    return nn::AttentionContext(t).attend(x, x, x, AttentionOptions(t));
  };
  CHECK_THROWS_WITH(both(AttentionTerms().bias(bias)),
                    "[AttentionContext] a bias is given by the layer and by its call: only one of them can have it");
  CHECK_THROWS_WITH(both(AttentionTerms().alibi(heads)), Contains("alibi is given by the layer and by its call"));
  CHECK_THROWS_WITH(both(AttentionTerms().sink(heads)), Contains("a sink is given by the layer and by its call"));
  CHECK_THROWS_WITH(both(AttentionTerms().score(cap)), Contains("a score is given by the layer and by its call"));
  const nn::AttentionContext plain;
  CHECK_THROWS_WITH(plain.attend(x, x, x, AttentionOptions().lse()),
                    Contains("[AttentionContext] the options ask for lse: the output alone is returned"));
  CHECK_THROWS_WITH(plain.attend(x, x, x, AttentionOptions().weights()), Contains("ask for weights"));
  nn::KVCache cache({{2, 4}}, 1, 3);
  nn::AttentionContext decoding;
  decoding.cache = cache.past(0);
  const Tensor y = randn({1, 1, 8});
  CHECK_THROWS_WITH(
      decoding.attend(heads_last(y, 2), heads_last(y), heads_last(y), AttentionOptions().cache(cache.past(0))),
      Contains("a cache is given by the layer and by its call"));
}

TEST_CASE("a dropout that is none names the layer that was asked for", "[attention]") {
  const auto text = [](const std::string& op) { return "[" + op + "] dropout is 10: it must be in 0 … 1"; };
  auto gpt = nn::GPTOptions().vocab_size(9).context_length(8).num_layers(1).num_heads(2).d_model(8).dropout(10);
  CHECK_THROWS_WITH(nn::GPT(gpt), text("GPT"));
  CHECK_THROWS_WITH(nn::GPTBlock(gpt), text("GPTBlock"));
  CHECK_THROWS_WITH(nn::GPTAttention(gpt), text("GPTAttention"));
  CHECK_THROWS_WITH(nn::MultiHeadAttention(8, 2, 10.), text("MultiHeadAttention"));
  CHECK_THROWS_WITH(nn::SelfAttention(8, 2, 10.), text("SelfAttention"));
  CHECK_THROWS_WITH(nn::CausalSelfAttention(8, 2, 10.), text("CausalSelfAttention"));
  CHECK_THROWS_WITH(nn::CrossAttention(8, 2, 10.), text("CrossAttention"));
  CHECK_THROWS_WITH(nn::ScaledDotProductAttention(10), text("ScaledDotProductAttention"));
  auto t = nn::TransformerOptions().source_vocab(9).target_vocab(9).max_length(8).d_model(8).num_heads(2).dropout(10);
  CHECK_THROWS_WITH(nn::Transformer(t), text("Transformer"));
  CHECK_THROWS_WITH(nn::TransformerEncoder(t, 1), text("TransformerEncoder"));
  CHECK_THROWS_WITH(nn::TransformerDecoder(t, 1), text("TransformerDecoder"));
  CHECK_THROWS_WITH(nn::TransformerEncoderLayer(t), text("TransformerEncoderLayer"));
  CHECK_THROWS_WITH(nn::TransformerDecoderLayer(t), text("TransformerDecoderLayer"));
  nn::BERTOptions bert;
  bert.vocab_size(9).max_length(8).num_layers(1).d_model(8).num_heads(2).dropout(10);
  CHECK_THROWS_WITH(nn::BERT(bert), text("BERT"));
  const Tensor x = ones({2, 4});
  CHECK_THROWS_WITH(scaled_dot_product_attention(x, x, x, AttentionOptions().dropout(10)),
                    text("scaled_dot_product_attention"));
}

TEST_CASE("attention layers draw from a generator of one's own", "[attention]") {
  const Tensor x = randn({2, 6, 8});
  Generator a(7), b(7);
  const nn::MultiHeadAttention drawn = [&] {
    manual_seed(3);
    return nn::MultiHeadAttention(8, 2, nn::MultiHeadAttentionOptions().dropout(0.5).generator(&a));
  }();
  const nn::MultiHeadAttention same = [&] {
    manual_seed(3);
    return nn::MultiHeadAttention(8, 2, nn::MultiHeadAttentionOptions().dropout(0.5).generator(&b));
  }();
  const auto calls = default_generator().calls();
  const Tensor first = drawn(x, x, x);
  CHECK(same_bits(first, same(x, x, x)));
  CHECK_FALSE(same_bits(first, drawn(x, x, x)));  // the next call draws anew
  CHECK(default_generator().calls() == calls);
  Generator c(5), d(5);
  const nn::ScaledDotProductAttention one(0.5, 1, {}, c), two(0.5, 1, {}, d);
  CHECK(same_bits(one(x, x, x), two(x, x, x)));
  CHECK(default_generator().calls() == calls);
}

TEST_CASE("parts of a GPT need no number of layers, and its attention may be another layer of the library", "[gpt]") {
  manual_seed(2);
  const auto o = nn::GPTOptions().vocab_size(9).context_length(8).num_heads(2).d_model(8);
  const Tensor x = randn({2, 5, 8});
  CHECK(nn::GPTAttention(o)(x).shape() == x.shape());
  CHECK(nn::GPTBlock(o)(x).shape() == x.shape());
  CHECK_THROWS_WITH(nn::GPT(o), "[GPT] num_layers is 0: it must be positive");
  CHECK_THROWS_WITH(nn::GPT(o, nn::ModuleList<nn::SequenceLayer>()), "[GPT] num_layers is 0: it must be positive");
  nn::ModuleList<nn::SequenceLayer> blocks;
  blocks.add(nn::GPTBlock(nn::RMSNorm(8), nn::SelfAttention(8, 2, 0.0), nn::RMSNorm(8), nn::FeedForward(8, 16)));
  nn::GPT gpt(o, std::move(blocks));
  gpt.to(float64);
  const Tensor ids = randint(0, 9, {2, 6}), all = gpt(ids);
  nn::KVCache cache = gpt.make_cache(2);
  const Tensor begin = gpt(slice(ids, 1, 0, 4), cache), end = gpt(slice(ids, 1, 4, 6), cache);
  CHECK(max_difference(cat({begin, end}, 1), all) < 1e-12);
  Tensor changed = ids.clone();
  changed[{range(), 5}] = (ids[{range(), 5}] + 1) % 9;
  CHECK(same_bits(gpt(changed)[{range(), range(0, 5)}], all[{range(), range(0, 5)}]));  // GPT's context is causal
}

TEST_CASE("a context gives its weights to one place, whatever the layer", "[attention]") {
  manual_seed(4);
  const Tensor x = randn({2, 5, 8});
  std::vector<Tensor> weights;
  nn::AttentionContext context(AttentionTerms().causal());
  context.weights = &weights;
  const nn::MultiHeadAttention attention(8, 2, 0.0);
  CHECK(same_bits(attention(x, x, x, context), attention(x, x, x, AttentionTerms().causal())));
  REQUIRE(weights.size() == 1);
  const AttentionResult r = attention(x, x, x, AttentionTerms().causal(), nn::return_attention);
  CHECK(same_bits(r.weights, weights[0]));
  const nn::GPTBlock block(nn::GPTOptions().vocab_size(9).context_length(8).num_heads(2).d_model(8));
  CHECK(same_bits(block(x, context), block(x)));
  REQUIRE(weights.size() == 2);
  CHECK(weights[1].shape() == Shape{2, 2, 5, 5});
  CHECK(sum(triu(weights[1].detach(), 1)).item() == 0);
  const nn::TransformerEncoderLayer layer(nn::TransformerLayerOptions().d_model(8).num_heads(2).dropout(0));
  const AttentionResult of_layer = layer(x, nn::return_attention);
  CHECK(same_bits(of_layer.output, layer(x)));
  CHECK(max_difference(sum(of_layer.weights, -1), ones({2, 2, 5})) < 1e-6);
}

}  // namespace fit::test::attention_context_test
