#include "fit/nn/inspect/summary.hpp"

#include <sstream>

#include "fit/nn/attention/attention.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/dropout.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/ops/ops.hpp"
#include "fit/ops/recurrent.hpp"
#include "support/catch.hpp"

namespace fit::test::summary_test {
using Catch::Matchers::Contains;

namespace {

struct Net : nn::Layer {
  Tensor forward(const Tensor& x, const Tensor& gate) const { return out(relu(hidden(x)) * gate) + out(x); }
  FIT_FIELDS(hidden, out, unused)
  nn::Linear hidden{8, 8}, out{8, 8}, unused{8, 3};
};

// Products that no layer of the library makes.
struct Bilinear : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return einsum("bi,ij,bj->b", {x, weight.value(), x}); }
  FIT_FIELDS(weight)
  nn::Parameter weight{ones({6, 6})};
};

}  // namespace

TEST_CASE("a summary has the layers in their order, with shapes, parameters and operations") {
  nn::Sequential model(nn::Linear(4, 16), nn::GELU(), nn::Linear(16, 3, false));
  const nn::ModelSummary s = nn::summary(model, randn({5, 4}));
  REQUIRE(s.layers.size() == 4);
  CHECK(s.model().name == "");
  CHECK(s.model().class_name == "Sequential");
  CHECK(s.model().parameters == 4 * 16 + 16 + 16 * 3);
  CHECK(s.model().share == 1);
  CHECK(s.model().output == Shape{5, 3});
  CHECK(s.layers[1].name == "0");
  CHECK(s.layers[1].output == Shape{5, 16});
  CHECK(s.layers[1].parameters == 80);
  CHECK(s.layers[1].share == Approx(80.0 / 128));
  CHECK(s.layers[1].flops == 2 * 5 * 4 * 16);
  CHECK(s.layer("1").flops == 0);
  CHECK(s.layer("2").flops == 2 * 5 * 16 * 3);
  CHECK(s.model().flops == 2 * 5 * 4 * 16 + 2 * 5 * 16 * 3);
  CHECK(s.parameter_bytes == 4 * 128);
  CHECK(s.trainable_parameters == 128);
  CHECK_THROWS_WITH(s.layer("3"), Contains("Sequential has no layer that is called '3'"));
}

TEST_CASE("activations are what the graph keeps, each buffer once") {
  nn::Sequential model(nn::Linear(4, 16), nn::GELU(), nn::Linear(16, 3, false));
  const nn::ModelSummary s = nn::summary(model, randn({5, 4}));
  CHECK(s.layer("0").activation_bytes == 4 * 5 * 4);   // x
  CHECK(s.layer("1").activation_bytes == 4 * 5 * 16);  // the hidden features
  CHECK(s.layer("2").activation_bytes == 4 * 5 * 16);  // gelu of them
  CHECK(s.model().activation_bytes == 4 * 5 * (4 + 16 + 16));
  model.freeze();
  CHECK(nn::summary(model, randn({5, 4})).model().activation_bytes == 0);
  CHECK(nn::summary(model, randn({5, 4})).trainable_parameters == 0);
}

TEST_CASE("attention counts the pairs that causality and the window leave") {
  const std::int64_t B = 2, H = 4, S = 6, d = 32;
  const auto flops = [&](const nn::SelfAttention& a, const AttentionTerms& masks) {
    return nn::summary(a, randn({B, S, d}), masks).layer("multihead_attn.attention").flops;
  };
  nn::SelfAttention a(d, H, 0.0);
  AttentionTerms masks;
  CHECK(flops(a, masks) == 4 * B * S * S * d);
  masks.mask(ones({1, S}, boolean));
  CHECK(flops(a, masks) == 4 * B * S * S * d);
  masks.causal(true);
  CHECK(flops(a, masks) == 4 * B * (S * (S + 1) / 2) * d);
  masks.window(2);
  CHECK(flops(a, masks) == 4 * B * (1 + 2 * (S - 1)) * d);
  // The projections are 2 m n k, and MultiHeadAttention itself does the same as its wrapper.
  const nn::ModelSummary s = nn::summary(a, randn({B, S, d}));
  CHECK(s.layer("multihead_attn.w_q").flops == 2 * B * S * d * d);
  CHECK(s.layer("multihead_attn").flops == s.model().flops);
  CHECK(s.model().flops == 4 * 2 * B * S * d * d + 4 * B * S * S * d);
  CHECK(s.model().output == Shape{B, S, d});
  const nn::ModelSummary w = nn::summary(a, randn({B, S, d}), nn::return_attention);
  CHECK(w.model().output == Shape{B, S, d});
}

TEST_CASE("products of one's own count where they are made") {
  const nn::ModelSummary s = nn::summary(Bilinear{}, randn({5, 6}));
  CHECK(s.model().flops >= 2 * 5 * 6 * 6);
  CHECK(s.model().flops <= 2 * 5 * 6 * 6 + 2 * 5 * 6);
  nn::Linear l(3, 2);
  CHECK(nn::summary(l,
                    [&] {
                      return matmul(l(ones({4, 3})), ones({2, 7}));
                    })
            .model()
            .flops == 2 * 4 * 3 * 2 + 2 * 4 * 2 * 7);
  CHECK(nn::summary(l, [&] { return l(ones({3})); }).model().flops == 2 * 3 * 2);
}

TEST_CASE("the products of recurrent steps are counted, backwards too") {
  // 2 sequences of 5 steps, 3 wide: 4 gates of each step see the step before; backwards, the last one has nothing
  // behind it.
  const nn::Linear l(3, 2);
  const Tensor x = ones({2, 5, 12}).requires_grad_();
  const Tensor weight = ones({12, 3}), h = zeros({2, 3});
  const auto recurrent = [&](bool backward) {
    return nn::summary(l,
                       [&] {
                         const Tensor y = lstm_steps(x, weight, zeros({12}), h, h).first;
                         if (backward) sum(y).backward();
                         return y;
                       })
        .model()
        .flops;
  };
  CHECK(recurrent(false) == 2 * 2 * 12 * 3 * 5);
  CHECK(recurrent(true) == 2 * 2 * 12 * 3 * (5 + 4));
}

TEST_CASE("a layer that does not tell of itself is seen by those below it") {
  Net net;
  const nn::ModelSummary s = nn::summary(net, randn({2, 8}), randn({2, 8}));
  CHECK(s.layer("hidden").calls == 1);
  CHECK(s.layer("out").calls == 2);
  CHECK(s.layer("out").flops == 2 * 2 * 2 * 8 * 8);
  CHECK(s.layer("unused").calls == 0);
  CHECK(s.model().output == Shape{2, 8});
  CHECK(s.model().calls == 1);
  CHECK_THAT(s.str(), Contains("[2, 8], 2 calls") && Contains("not called"));
}

TEST_CASE("a list has what its layers have, and shared parameters count once") {
  const nn::GPT model(nn::GPTOptions().vocab_size(20).context_length(16).num_layers(2).num_heads(2).d_model(16));
  const Tensor ids = zeros({4, 8}, int64);
  const nn::ModelSummary s = nn::summary(model, ids);
  CHECK(s.model().parameters == model.num_parameters());
  CHECK(s.layer("head").parameters == 0);
  CHECK(s.layer("wte").parameters == 20 * 16);
  CHECK(s.layer("head").flops == 2 * 4 * 8 * 16 * 20);
  CHECK(s.layer("h").calls == 0);
  CHECK(s.layer("h").flops == s.layer("h.0").flops + s.layer("h.1").flops);
  CHECK(s.layer("h").activation_bytes == s.layer("h.0").activation_bytes + s.layer("h.1").activation_bytes);
  CHECK(s.model().flops == s.layer("h").flops + s.layer("head").flops);
  CHECK(s.notes == std::vector<std::string>{"head.weight is wte.weight, and counted there."});
  const nn::ModelSummary of_loss = nn::summary(model, [&] { return model.loss(ids, ids); });
  CHECK(of_loss.model().flops == s.model().flops);
  CHECK(of_loss.model().activation_bytes > s.model().activation_bytes);  // the logits' softmax
}

TEST_CASE("a model that is called within itself gives what the outer call gives") {
  const auto o = nn::TransformerOptions()
                     .source_vocab(11)
                     .target_vocab(13)
                     .max_length(8)
                     .d_model(16)
                     .num_heads(2)
                     .num_encoder_layers(1)
                     .num_decoder_layers(1);
  const nn::Transformer model(o);
  const nn::ModelSummary s = nn::summary(model, zeros({2, 5}, int64), zeros({2, 4}, int64));
  CHECK(s.model().output == Shape{2, 4, 13});
  CHECK(s.model().calls == 1);
  CHECK(s.layer("encoder").output == Shape{2, 5, 16});
  CHECK(s.layer("decoder.layers.0.cross_attn").flops > 0);
}

TEST_CASE("a summary leaves everything as it was") {
  nn::Sequential model(nn::Linear(4, 16), nn::Dropout(0.5), nn::Linear(16, 3));
  const Tensor x = randn({5, 4});
  manual_seed(7);
  const Tensor before = model(x);
  manual_seed(7);
  {
    const NoGrad no_grad;
    CHECK(nn::summary(model, x).model().activation_bytes > 0);  // records all the same
    CHECK_FALSE(grad_enabled());
  }
  const Tensor after = model(x);
  CHECK(before.to_vector<float>() == after.to_vector<float>());
  CHECK(model.training());
  for (const Tensor& p : model.parameters()) CHECK_FALSE(p.grad().defined());
  CHECK_THROWS_WITH(nn::summary(model, randn({5, 3})), Contains("in_features") && Contains("in 0"));
  CHECK(detail::thread_state.observed == nullptr);  // after an Error, too
  model(x);
}

TEST_CASE("one summary may be taken within another") {
  nn::Linear l(3, 2);
  nn::ModelSummary inner;
  const nn::ModelSummary outer = nn::summary(l, [&] {
    inner = nn::summary(l, ones({4, 3}));
    return l(ones({1, 3}));
  });
  CHECK(inner.model().flops == 2 * 4 * 3 * 2);
  CHECK(outer.model().flops == 2 * 1 * 3 * 2);
}

TEST_CASE("a summary is printed as a table") {
  nn::Sequential model(nn::Linear(40, 1000), nn::ReLU(), nn::Linear(1000, 3));
  model.eval();
  std::ostringstream out;
  out << nn::summary(model, randn({5, 40}));
  CHECK(out.str() ==
        "Layer  Class       Output     Parameters    Share   FLOPs  Activations\n"
        "----------------------------------------------------------------------\n"
        "0      Linear      [5, 1000]      41,000   93.2 %   400 k        800 B\n"
        "1      ReLU        [5, 1000]           -        -       -     19.5 KiB\n"
        "2      Linear      [5, 3]          3,003    6.8 %  30.0 k            -\n"
        "----------------------------------------------------------------------\n"
        "all    Sequential  [5, 3]         44,003  100.0 %   430 k     20.3 KiB\n"
        "44,003 parameters, 172 KiB, all of them trained. In evaluation.\n"
        "Each line is of the layer and those below. FLOPs are those of matrix products and attention, forward.\n"
        "Activations are what the backward pass keeps.\n");
  model.layer("0").freeze();
  CHECK_THAT(nn::summary(model, randn({5, 40})).str(), Contains("3,003 of them trained"));
  CHECK_THAT(nn::summary(model, randn({5, 40})).str(0), !Contains("ReLU") && Contains("Sequential"));
}

}  // namespace fit::test::summary_test
