// Errors out of layers say where they were thrown.
#include <optional>

#include "common/pattern.hpp"
#include "fit/nn.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::layer_path_test {
using Catch::EndsWith;

namespace {

nn::TransformerOptions small_transformer() {
  return nn::TransformerOptions()
      .d_model(8)
      .num_heads(2)
      .hidden(8)
      .source_vocab(5)
      .target_vocab(5)
      .max_length(6)
      .num_encoder_layers(3)
      .num_decoder_layers(3);
}

nn::GPTOptions small_gpt() {
  return nn::GPTOptions().vocab_size(5).context_length(4).num_layers(3).num_heads(2).d_model(8);
}

// What is called is told of the Error.
template <class F>
std::string told(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    if (!e.where().empty()) CHECK_THAT(e.what(), EndsWith(", in " + e.where()));
    return e.where();
  }
  return "nothing was thrown";
}

struct Plain final : nn::Layer {
  Tensor forward(const Tensor& x, const Tensor& y) const { return two(one(x)) + y; }
  FIT_FIELDS(one, two)
  nn::Linear one{2, 3};
  std::vector<nn::Linear> many;
  nn::Sequential two{nn::Linear(3, 3), nn::Linear(4, 3)};
};

struct Middle final : nn::Layer {
  Tensor forward(const Tensor& x) const { return inner(x, x); }
  FIT_FIELDS(inner)
  Plain inner;
};

struct Around final : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return middle(x); }
  FIT_FIELDS(middle)
  Middle middle;
};

}  // namespace

TEST_CASE("an Error names the layer it was thrown in, by the way to it") {
  const Plain plain;
  CHECK_THROWS_WITH(plain(zeros({4, 2}), zeros({4, 3})),
                    "[Linear] x is [4, 3], weight is [3, 4]: the last of x must be in_features = 4, in two.1");
  CHECK(told([&] { plain(zeros({4, 5}), zeros({4, 3})); }) == "one");
  CHECK(told([] { Around()(zeros({4, 2})); }) == "middle.inner.two.1");
  CHECK(told([] { nn::Sequential(Around(), nn::ReLU())(zeros({4, 2})); }) == "0.middle.inner.two.1");
  // A layer by itself is no place, and keeps the message as it is.
  CHECK_THROWS_WITH(nn::Linear(3, 2)(zeros({5})), EndsWith("in_features = 3"));
}

TEST_CASE("what is thrown between the inner layers is thrown in the layer itself") {
  struct Adds final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return fc(x) + zeros({7}); }
    FIT_FIELDS_ONLY(fc)
    nn::Linear fc{2, 3};
  };
  CHECK(told([] { nn::Sequential(nn::ReLU(), Adds())(zeros({2})); }) == "1");
}

TEST_CASE("a layer that is not below does not mislead") {
  static const nn::Sequential elsewhere(nn::ReLU(), nn::Linear(9, 9));
  struct Calls final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return elsewhere(x); }
    FIT_FIELDS_ONLY()
  };
  CHECK(told([] { elsewhere(zeros({2})); }) == "1");
  CHECK(told([] { nn::Sequential(nn::ReLU(), nn::Sequential(Calls()))(zeros({2})); }) == "1.0");
}

TEST_CASE("every kind of layer of the library takes part") {
  const nn::Linear wrong(3, 3);
  const Tensor ids = tensor({{1, 2, 3}}), x = zeros({1, 3, 8});
  const auto misfit = [] { return nn::Linear(3, 3); };

  nn::GPT gpt(small_gpt());
  CHECK(told([&] { gpt(tensor({{1, 9}})); }) == "wte");
  gpt.layer<nn::Linear>("h.2.mlp.fc") = misfit();
  CHECK(told([&] { gpt(ids); }) == "h.2.mlp.fc");
  CHECK(told([&] { gpt.loss(ids, ids); }) == "h.2.mlp.fc");
  CHECK(told([&] {
          nn::KVCache cache = gpt.make_cache(1);
          gpt(ids, cache);
        }) == "h.2.mlp.fc");
  CHECK(told([&] {
          nn::KVCache cache = gpt.make_cache(1);
          gpt.forward_last(ids, cache);
        }) == "h.2.mlp.fc");
  CHECK(told([&] { gpt.h[2](x); }) == "mlp.fc");
  gpt.layer<nn::Linear>("h.0.attn.qkv") = misfit();
  CHECK(told([&] { gpt(ids); }) == "h.0.attn.qkv");

  nn::Transformer model(small_transformer());
  CHECK(told([&] { model(tensor({{7}}), ids); }) == "source_embedding");
  model.decoder.layer<nn::Linear>("layers.1.cross_attn.w_o") = misfit();
  CHECK(told([&] { model(ids, ids); }) == "decoder.layers.1.cross_attn.w_o");
  model.eval();
  nn::DecoderCache cache = model.make_cache(ids);
  CHECK(told([&] { model.decode(tensor({{1}}), cache); }) == "decoder.layers.1.cross_attn.w_o");
  CHECK(told([&] { model.decoder(x, x); }) == "layers.1.cross_attn.w_o");
  CHECK(told([&] { model.decoder.layers[1](x, nn::decoder_context(x)); }) == "cross_attn.w_o");
  model.encoder.layer<nn::LayerNorm>("layers.2.norm2") = nn::LayerNorm(5);
  CHECK(told([&] { model(ids, ids); }) == "encoder.layers.2.norm2");
  CHECK(told([&] { model.encoder(x); }) == "layers.2.norm2");
  CHECK(told([&] { model.encoder.layers[2](x, nn::return_attention); }) == "norm2");
  CHECK(told([&] { model.encoder.layers[0](zeros({2, 8})); }) == "self_attn");
  model.encoder.layer<nn::Linear>("layers.1.mlp.proj") = misfit();
  CHECK(told([&] { model.encoder.layer<nn::FeedForward>("layers.1.mlp")(x); }) == "proj");

  nn::MultiHeadAttention attention(8, 2);
  attention.w_k = nn::Linear(8, 6);
  CHECK(told([&] { attention(x, x, x); }) == "attention");
  struct Holds final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return self(x); }
    FIT_FIELDS_ONLY(self, loss)
    nn::SelfAttention self{8, 2};
    nn::MSELoss loss;
  };
  Holds holds;
  CHECK(told([&] { nn::within(holds, [&] { return holds.loss(x, zeros({2})); }); }) == "loss");
  holds.self.multihead_attn.w_v = misfit();
  CHECK(told([&] { holds(x); }) == "self.multihead_attn");

  nn::SelfAttention self(8, 2);
  nn::CrossAttention cross(8, 2);
  nn::CausalSelfAttention causal(8, 2);
  self.multihead_attn.w_o = misfit();
  cross.multihead_attn.w_o = misfit();
  causal.multihead_attn.w_o = misfit();
  CHECK(told([&] { self(x); }) == "multihead_attn.w_o");
  CHECK(told([&] { self(x, nn::return_attention); }) == "multihead_attn.w_o");
  CHECK(told([&] { cross(x, x); }) == "multihead_attn.w_o");
  CHECK(told([&] { causal(x); }) == "multihead_attn.w_o");
  nn::DecoderCache rows = model.decoder.make_cache(x, {}, 4);
  CHECK(told([&] { model.decoder(zeros({1, 1, 8}), rows); }) == "layers.1.cross_attn.w_o");
  CHECK(rows.self.length() == 0);
  nn::GPTAttention own(nn::GPTOptions(small_gpt()).d_model(8).num_heads(2));
  own.proj = misfit();
  CHECK(told([&] { own(x); }) == "proj");
}

TEST_CASE("an Error keeps its type and its way through a copy, and is told anew by another model") {
  struct Own : Error {
    using Error::Error;
  };
  struct Throws final : nn::UnaryLayer {
    Tensor forward(const Tensor&) const override { throw Own("[own] no"); }
    FIT_FIELDS_ONLY()
  };
  const nn::Sequential net{nn::ReLU(), Throws()};
  try {
    net(zeros({1}));
    FAIL("nothing was thrown");
  } catch (const Own& e) {
    const Own copy = e;
    CHECK(std::string(copy.what()) == "[own] no, in 1");
  }
}

TEST_CASE("named_layers() gives every layer once, by class if one is asked for") {
  nn::GPT gpt(small_gpt());
  const auto all = gpt.named_layers();
  REQUIRE(all.size() > 20);
  CHECK(all[0].first.empty());
  CHECK(all[0].second == &gpt);
  CHECK(all[1].first == "wte");
  std::vector<std::string> names;
  for (const auto& [name, linear] : gpt.named_layers<nn::Linear>()) names.push_back(name);
  CHECK(names.size() == 13);
  CHECK(names[1] == "h.0.attn.proj");
  const nn::GPT& seen = gpt;
  static_assert(std::is_same_v<decltype(seen.named_layers<nn::Linear>()[0].second), const nn::Linear*>);
  CHECK(seen.named_layers<nn::GPTBlock>()[2] ==
        std::pair<std::string, const nn::GPTBlock*>("h.2", &gpt.layer<nn::GPTBlock>("h.2")));
  const auto shared = std::make_shared<nn::Linear>(2, 2);
  CHECK(nn::Sequential(shared, shared).named_layers().size() == 2);
}

TEST_CASE("parameters and layers are found by their names, and layers held by pointer are replaced") {
  nn::GPT gpt(small_gpt());
  CHECK(gpt.parameter("h.1.mlp.fc.weight").impl() == gpt.layer<nn::Linear>("h.1.mlp.fc").weight.impl());
  CHECK(&gpt.layer("h.1.mlp") == gpt.layer<nn::GPTBlock>("h.1").mlp.get());
  CHECK_THROWS_WITH(
      gpt.parameter("h.1.mlp.fc.wait"),
      "[parameter] GPT has nothing that is called 'h.1.mlp.fc.wait': the most similar name is 'h.1.mlp.fc.weight'");
  CHECK_THROWS_WITH(gpt.layer("h.1.mpl"),
                    "[layer] GPT has nothing that is called 'h.1.mpl': the most similar name is 'h.1.mlp'");
  CHECK_THROWS_WITH(gpt.parameter("somewhere.else"), "[parameter] GPT has nothing that is called 'somewhere.else'");
  CHECK_THROWS_WITH(gpt.parameter("h.1.mlp"), "[parameter] 'h.1.mlp' of GPT is not a parameter");
  CHECK_THROWS_WITH(gpt.layer("h.1.mlp.fc.weight"), "[layer] 'h.1.mlp.fc.weight' of GPT is not a layer");
  CHECK_THROWS_WITH(gpt.layer<nn::Linear>("h.1.mlp"),
                    "[layer] 'h.1.mlp' of GPT is a FeedForward, not of the class wanted");
  const auto block = std::make_shared<nn::GPTBlock>(small_gpt());
  gpt.replace("h.1", block);
  CHECK(&gpt.h[1] == block.get());
  CHECK_THROWS_WITH(gpt.replace("h.1", std::make_shared<nn::ReLU>()),
                    "[replace] 'h.1' of GPT is a GPTBlock: a ReLU does not fit there");
  CHECK_THROWS_WITH(gpt.replace("head", std::make_shared<nn::Linear>(2, 2)),
                    "[replace] 'head' of GPT is not held by a std::shared_ptr: assign to the member");
  CHECK_THROWS_WITH(gpt.replace("h.1", nullptr), "[replace] the layer for 'h.1' is a null pointer");
  CHECK(&gpt.h[1] == block.get());

  struct Listed final : nn::Layer {
    FIT_FIELDS_ONLY(blocks)
    std::vector<nn::Sequential> blocks;
  };
  Listed listed;
  listed.blocks.emplace_back(nn::Linear(1, 1));
  listed.replace("blocks.0.0", std::make_shared<nn::ReLU>());
  CHECK(listed.layer("blocks.0.0").name() == "ReLU");

  nn::Sequential inner(nn::Linear(2, 2)), outer(nn::ReLU(), std::move(inner));
  outer.replace("1.0", std::make_shared<nn::Linear>(2, 3));  // a name, and a position
  CHECK(outer(ones({1, 2})).shape() == Shape{1, 3});
  outer.replace(1, nn::Tanh());
  CHECK(outer.layer("1").name() == "Tanh");
  gpt.h.replace("0", block);
  CHECK(&gpt.h[0] == block.get());
}

TEST_CASE("a pattern matches a name in time by their lengths: each * one character or more, as few as possible") {
  using Letters = std::vector<std::string>;
  CHECK(nn::match("h.*.attn.*", "h.10.attn.qkv.weight") == Letters{"10", "qkv.weight"});
  CHECK(nn::match("*a*b", "aaabab") == Letters{"a", "aba"});
  CHECK(nn::match("a*", "a*") == Letters{"*"});
  CHECK(nn::match("", "") == Letters{});
  for (const char* pattern : {"h.*", "*h.", "h.**", "h", "h.0", "", "x"}) CHECK_FALSE(nn::match(pattern, "h."));
  std::string stars;
  for (int i = 0; i < 30; ++i) stars += "*a";
  CHECK(nn::match(stars, std::string(60, 'a')) == Letters(30, "a"));
  CHECK_FALSE(nn::match(stars + "*b", std::string(200, 'a')));
}

}  // namespace fit::test::layer_path_test
