#include "fit/nn/layer/forward_hooks.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::unpadding_test {
namespace {

nn::TransformerLayerOptions layer_options(bool norm_first) {
  return nn::TransformerLayerOptions().d_model(12).num_heads(4).hidden(20).dropout(0).norm_first(norm_first);
}

// Sequences of 3, 5, 0 and 1 tokens, padded at the end and at the beginning.
Tensor padded_ids() { return tensor({{4, 2, 6, 0, 0}, {1, 2, 3, 4, 5}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 3}}); }

// Takes whole sequences.
struct MeanOfKeys final : nn::AttentionLayer {
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const nn::AttentionContext& context) const override {
    CHECK_FALSE(context.padding);
    CHECK(query.impl() == value.impl());
    return query + mean(key, 1).unsqueeze(1);
  }
  FIT_FIELDS()
};

}  // namespace

TEST_CASE("a batch without its padding is what it was, with gradients", "[transformer][unpadding]") {
  manual_seed(1);
  const Tensor four = create_padding_mask(padded_ids());
  const Tensor visible = four.reshape({4, 5, 1});
  for (const bool first : {false, true})
    for (const Tensor& mask : {four, four.reshape({4, 1, 5}), four.to(int64), four.to(float32)}) {
      INFO("norm_first " << first << ", mask " << mask.shape() << " of " << mask.dtype());
      nn::TransformerEncoder encoder(layer_options(first), 2);
      encoder.to(float64);
      Tensor x = randn({4, 5, 12}, float64).requires_grad_(true);
      const Tensor w = randn({4, 5, 12}, float64);
      const auto loss = [&](const Tensor& y) { return sum(where(visible, y, 0) * w); };
      const Tensor y = encoder.forward(x, mask), without = encoder(x, nn::without_padding(mask, x));
      CHECK(max_difference(where(visible, y, 0), without) < 1e-12);
      CHECK(sum(abs(where(visible, 0, without))).item() == 0);
      loss(y).backward();
      const Tensor dx = x.grad();
      std::vector<Tensor> gradients;
      for (const auto& [name, p] : encoder.named_parameters()) gradients.push_back(p.grad());
      x.zero_grad();
      encoder.zero_grad();
      loss(without).backward();
      CHECK(max_difference(x.grad(), dx) < 1e-12);
      std::size_t i = 0;
      for (const auto& [name, p] : encoder.named_parameters()) {
        INFO(name);
        CHECK(max_difference(p.grad(), gradients[i++]) < 1e-12);
      }
    }
}

TEST_CASE("padding is left out where the mask is of padding alone", "[unpadding]") {
  const Tensor mask = create_padding_mask(padded_ids());
  const Shape sequences{4, 5, 3};
  REQUIRE(nn::Unpadding::of(mask, sequences));
  CHECK_FALSE(nn::Unpadding::of(Tensor(), sequences));
  CHECK_FALSE(nn::Unpadding::of(ones({4, 1, 5}, boolean), sequences));
  CHECK(nn::Unpadding::of(zeros({4, 1, 5}, boolean), sequences));
  CHECK_FALSE(nn::Unpadding::of(zeros({0, 1, 5}, boolean), {0, 5, 3}));
  CHECK_FALSE(nn::Unpadding::of(ones({4, 5, 5}, boolean), sequences));
  CHECK_FALSE(nn::Unpadding::of(mask, {4, 6, 3}));
  CHECK_FALSE(nn::Unpadding::of(mask, {4, 5}));
  const nn::Unpadding padding = *nn::Unpadding::of(mask, sequences);
  const Tensor x = randn(sequences), rows = padding.remove(x);
  CHECK(rows.shape() == Shape{9, 3});
  CHECK(same_bits(rows[{8}], x[{3, 4}]));
  CHECK(same_bits(padding.zero_padding(padding.restore(rows)), where(mask.reshape({4, 5, 1}), x, 0)));
  // What forward() refuses is refused.
  const nn::TransformerEncoder encoder(layer_options(false), 1);
  const Tensor longer = randn({4, 6, 12}), thinner = randn({4, 5, 8});
  CHECK_THROWS_WITH(encoder(longer, nn::without_padding(mask, longer)), Catch::Contains("mask"));
  CHECK_THROWS_AS(encoder(thinner, nn::without_padding(mask, thinner)), Error);
}

TEST_CASE("a batch of padding alone gives 0", "[transformer][unpadding]") {
  manual_seed(1);
  const Tensor ids = zeros({2, 3}, int64), mask = create_padding_mask(ids);
  nn::BERT bert(nn::BERTOptions().vocab_size(9).num_layers(1).d_model(8).num_heads(2).max_length(4));
  for (const bool training : {false, true}) {
    bert.train(training);
    CHECK(equal(bert(ids, mask), zeros({2, 3, 8})));
  }
  nn::TransformerEncoder encoder(layer_options(true), 2);
  Tensor x = randn({2, 3, 12}).requires_grad_(true);
  const Tensor y = encoder(x, nn::without_padding(mask, x));
  CHECK(equal(y, zeros({2, 3, 12})));
  sum(y).backward();
  CHECK(equal(x.grad(), zeros({2, 3, 12})));
}

TEST_CASE("a BERT's padding costs nothing and changes nothing", "[unpadding]") {
  manual_seed(1);
  auto o = nn::BERTOptions().d_model(8).num_heads(2).vocab_size(7).max_length(8).num_layers(2).dropout(0);
  nn::BERT bert(o);
  const NoGrad no_grad;
  const Tensor ids = padded_ids(), mask = create_padding_mask(ids);
  const Tensor y = bert(ids, mask);
  CHECK(max_difference(y[{0, range(0, 3)}], bert(ids[{range(0, 1), range(0, 3)}])[{0}]) < 1e-5);
  CHECK(max_difference(y[{1}], bert(ids[{range(1, 2)}])[{0}]) < 1e-5);
  CHECK(sum(abs(y[{0, range(3, 5)}])).item() == 0);
  CHECK(sum(abs(y[{2}])).item() == 0);
  nn::TransformerWeights weights;
  const Tensor with_weights = bert.forward(ids, mask, {}, &weights);
  CHECK(weights.self.size() == 2);
  CHECK(max_difference(where(mask.reshape({4, 5, 1}), with_weights, 0), y) < 1e-5);
  // Each layer sees the 9 tokens that are there.
  std::int64_t seen = 0;
  const auto hook = nn::register_forward_hook(bert.encoder.layer("layers.0.mlp"),
                                              [&](const nn::Layer&, const Tensor& x) { seen = x.numel() / 8; });
  bert(ids, mask);
  CHECK(seen == 9);
  // Where there is dropout, all: what is dropped is drawn by its place in the batch.
  o.dropout(0.5);
  nn::BERT dropping(o);
  const auto all = nn::register_forward_hook(dropping.encoder.layer("layers.0.mlp"),
                                             [&](const nn::Layer&, const Tensor& x) { seen = x.numel() / 8; });
  CHECK(sum(abs(dropping(ids, mask)[{2}])).item() == 0);
  CHECK(seen == 20);
  dropping.eval();
  dropping(ids, mask);
  CHECK(seen == 9);
}

TEST_CASE("a layer that takes whole sequences gets them, and so do its hooks", "[unpadding]") {
  const Tensor mask = create_padding_mask(padded_ids()), x = randn({4, 5, 12});
  const nn::AttentionContext context = nn::without_padding(mask, x);
  MeanOfKeys layer;
  const nn::AttentionLayer& of_encoder = layer;
  Shape seen, returned;
  const auto before =
      nn::register_forward_pre_hook(layer, [&](const nn::Layer&, const Tensor& q) { seen = q.shape(); });
  const auto after = nn::register_forward_hook(layer, [&](const nn::Layer&, const Tensor& y) { returned = y.shape(); });
  const Tensor rows = context.padding->remove(x), y = of_encoder(rows, rows, rows, context);
  CHECK(seen == Shape{4, 5, 12});
  CHECK(returned == Shape{4, 5, 12});
  const Tensor whole = context.padding->restore(rows);
  CHECK(same_bits(y, context.padding->remove(whole + mean(whole, 1).unsqueeze(1))));
}

TEST_CASE("a layer alone tells that its input has padding, which the context lacks", "[unpadding]") {
  const nn::TransformerEncoderLayer layer(nn::TransformerLayerOptions().d_model(8).num_heads(2).dropout(0));
  const Tensor mask = create_padding_mask(padded_ids()), x = randn({4, 5, 8});
  const nn::AttentionContext context = nn::without_padding(mask, x);
  CHECK_THROWS_WITH(layer(x, context),
                    Catch::Contains("query has shape [4, 5, 8]: it must be [N, 8], as the context is one without") &&
                        Catch::Contains("context.padding->remove(x), or the mask"));
  const Tensor y = layer(context.padding->remove(x), context);
  CHECK(max_difference(y, context.padding->remove(layer(x, mask))) < 1e-5);
}

}  // namespace fit::test::unpadding_test
