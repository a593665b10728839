#include <sys/resource.h>

#include <iostream>
#include <sstream>

#include "fit/nn/attention/attention.hpp"
#include "fit/nn/attention/attention_recorder.hpp"
#include "fit/nn/data/readers.hpp"
#include "fit/nn/inspect/summary.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/feed_forward.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/nn/layers/position.hpp"
#include "fit/nn/layers/recurrent.hpp"
#include "fit/nn/lens/lens.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/nn/optim/more/lbfgs.hpp"
#include "fit/nn/optim/muon.hpp"
#include "fit/nn/tokenizers/text.hpp"
#include "fit/nn/training/trainer.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tables/refusals.hpp"
#include "support/tensors.hpp"

// Layers, models and tools at the edges of what they take.
namespace fit::test::nn_edges_test {
namespace {

using Catch::Matchers::Contains;

// Two parameters of one tensor.
struct Tied final : nn::Layer {
  FIT_FIELDS_ONLY(a, b, none)
  nn::Parameter a{ones({2})}, b{a}, none{zeros({0})};
};

nn::GPTOptions small_gpt() {
  return nn::GPTOptions().vocab_size(5).context_length(6).num_layers(2).num_heads(2).d_model(8);
}

}  // namespace

TEST_CASE("a state with an undefined, a doubled or an unknown tensor is refused", "[edges]") {
  Tied tied;
  CHECK(tied.named_parameters().size() == 2);
  const Tensor x = tensor({3., 4.}), none = zeros({0});
  tied.load_state_dict({{"a", x}, {"none", none}});  // one of two that are one is enough
  CHECK(values(tied.b) == std::vector<double>{3, 4});
  tied.load_state_dict({{"a", x + 1}, {"b", (x + 1).clone()}, {"none", none}});
  CHECK(values(tied.b) == std::vector<double>{4, 5});
  const auto load = [&](const StateDict& state) { return [&, state] { tied.load_state_dict(state); }; };
  check_refused({
      {"a is undefined", load({{"a", Tensor()}, {"none", none}})},
      {"b and a differ, here they are one tensor", load({{"a", x}, {"b", x + 1}, {"none", none}})},
      {"a (twice)", load({{"a", x}, {"a", x}, {"none", none}})},
      {"c undefined", load({{"a", x}, {"none", none}, {"c", Tensor()}})},
      {"c [2]", load({{"a", x}, {"none", none}, {"c", x}})},
      {"a [2]", load({{"none", none}})},
      {"a is int64, here float32", load({{"a", tensor({1, 2})}, {"none", none}})},
  });
  CHECK(values(tied.a) == std::vector<double>{4, 5});
}

TEST_CASE("a map of names passes undefined tensors on, and refuses parts that don't fit", "[edges]") {
  using namespace nn;
  const NameMap turned{transpose("t", "u")}, cut{split("x", {"a", "b"})}, joined{join({"a", "b"}, "x")};
  CHECK_FALSE(at(to_ours({{"t", Tensor()}}, turned), "u").defined());
  const Tensor m = ones({2, 3});
  check_refused({
      {"t has shape [3]: what is transposed must have two axes",
       [=] {
         return to_ours({{"t", ones({3})}}, turned);
       }},
      {"x is undefined",
       [=] {
         return to_ours({{"x", Tensor()}}, cut);
       }},
      {"x has shape []",
       [=] {
         return to_ours({{"x", tensor(1.)}}, cut);
       }},
      {"x has shape [3, 2]: its first axis must be cut into 2 equal parts",
       [=] {
         return to_ours({{"x", ones({3, 2})}}, cut);
       }},
      {"a is there, but b is not",
       [=] {
         return to_ours({{"a", m}}, joined);
       }},
      {"a is there, but b is not",
       [=] {
         return to_ours({{"a", m}, {"b", Tensor()}}, joined);
       }},
      {"b has shape [6] float32, a [2, 3] float32: they can't be put together",
       [=] {
         return to_ours({{"a", m}, {"b", ones({6})}}, joined);
       }},
      {"b has shape [2, 3] float64",
       [=] {
         return to_ours({{"a", m}, {"b", ones({2, 3}, float64)}}, joined);
       }},
      {"b has shape [2, 4]",
       [=] {
         return to_ours({{"a", m}, {"b", ones({2, 4})}}, joined);
       }},
      {"b has shape [1, 3]",
       [=] {
         return to_ours({{"a", m}, {"b", ones({1, 3})}}, joined);
       }},
      {"a has shape []",
       [=] {
         return to_ours({{"a", tensor(1.)}, {"b", tensor(1.)}}, joined);
       }},
  });
}

TEST_CASE("bytes that are no UTF-8 are told apart from those that are", "[edges]") {
  // One character each: the first and the last of each length, and those beside what is not allowed.
  for (const std::string& good : {std::string("a"), std::string("\xc2\x80"), std::string("\xdf\xbf"),
                                  std::string("\xe0\xa0\x80"), std::string("\xed\x9f\xbf"), std::string("\xee\x80\x80"),
                                  std::string("\xf0\x90\x80\x80"), std::string("\xf4\x8f\xbf\xbf")})
    CHECK(text::CharVocabulary(good).size() == 1);
  // Overlong, half, surrogates, above the last, a lone continuation, a cut one.
  for (const std::string& bad :
       {std::string("\xc0\x80"), std::string("\xe0\x9f\xbf"), std::string("\xed\xa0\x80"),
        std::string("\xf0\x8f\xbf\xbf"), std::string("\xf4\x90\x80\x80"), std::string("\xf5\x80\x80\x80"),
        std::string("\x80"), std::string("\xe2\x82"), std::string("\xe2\x82z"), std::string("\xe2z\x82")}) {
    INFO(bad);
    CHECK_THROWS_AS(text::CharVocabulary(bad), Error);
  }
}

TEST_CASE("a log that can't be written any more says so once, and keeps its rows", "[edges]") {
  const Directory d;
  MetricsLog log(d.file("m.jsonl"));
  log.add({{"step", 1}});
  std::ostringstream said;
  std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit low{20, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &low);
  log.add({{"step", 2}, {"a long name of a number", 0.125}});
  log.add({{"step", 3}});
  setrlimit(RLIMIT_FSIZE, &old);
  std::cerr.rdbuf(before);
  CHECK(said.str() == "[MetricsLog] " + d.file("m.jsonl") + " can't be written any more: File too large\n");
  CHECK(log.rows().size() == 3);
}

TEST_CASE("rows of equal logits are drawn in the order of their ids, and nothing is left out", "[edges]") {
  const Tensor equal = zeros({4});
  const auto draw = [&](const nn::SamplingOptions& o, double uniform) {
    return nn::sample_token(equal, {}, o, uniform);
  };
  CHECK(draw(nn::SamplingOptions().top_k(2), 0.49) == 0);
  CHECK(draw(nn::SamplingOptions().top_k(2), 0.51) == 1);
  CHECK(draw(nn::SamplingOptions().top_p(0.5), 0.99) == 1);
  CHECK(draw(nn::SamplingOptions().top_p(0.9999999999999999), 0.99) == 3);
}

TEST_CASE("tables of rotary positions at the ends of their options", "[edges]") {
  const auto yarn = nn::RotaryTableOptions().scaling(nn::RotaryScaling::yarn).original_length(8);
  CHECK(equal(nn::rotary_table(4, 8, yarn), nn::rotary_table(4, 8)));  // a factor of 1 changes nothing
  const auto llama3 = nn::RotaryTableOptions().scaling(nn::RotaryScaling::llama3).original_length(8);
  CHECK(equal(nn::rotary_table(4, 8, llama3), nn::rotary_table(4, 8)));
  const auto ntk = nn::RotaryTableOptions().scaling(nn::RotaryScaling::ntk).factor(4);
  CHECK(equal(nn::rotary_table(4, 2, ntk), nn::rotary_table(4, 2)));  // one pair has no base
  CHECK(max_difference(nn::rotary_table(4, 4, ntk), nn::rotary_table(4, 4)) > 0.01);
  CHECK(nn::rotary_table(0, 0).shape() == Shape{0, 0, 2});
}

TEST_CASE("means of a run have the shape of what they replace", "[edges]") {
  nn::GPT gpt(small_gpt());
  gpt.eval();
  const Tensor ids = tensor({{0, 1, 2}, {3, 4, 0}});
  const nn::Lens lens(gpt);
  const nn::LensRun run = lens.run(ids);
  for (const char* const name : {"h.0.attn.z", "h.0.resid_post"}) {
    INFO(name);
    const nn::LensRun edited = lens.with(name, nn::mean_of(run)).run(ids);
    CHECK(edited[name].shape() == run[name].shape());
    CHECK(max_difference(edited.output, run.output) > 0);
  }
  // An attribution of a model whose last norm is an RMSNorm.
  nn::GPT other(small_gpt().norm(nn::Norm::rms));
  other.eval();
  const nn::LogitAttribution parts = nn::logit_attribution(other, ids[{range(0, 1)}], 2);
  CHECK(std::abs(parts.sum() - parts.logit) < 1e-4);
  other.ln_f = std::make_shared<nn::Identity>();
  CHECK_THROWS_WITH(nn::logit_attribution(other, ids[{range(0, 1)}], 2),
                    Contains("a norm is a Identity: it must be a LayerNorm or an RMSNorm"));
}

TEST_CASE("every activation has a name and its formula", "[edges]") {
  using nn::Activation;
  const Tensor x = randn({3, 4});
  for (const auto& [activation, name] : {std::pair(Activation::relu, "relu"),
                                         {Activation::gelu, "gelu"},
                                         {Activation::gelu_tanh, "gelu_tanh"},
                                         {Activation::swiglu, "swiglu"},
                                         {Activation::geglu, "geglu"},
                                         {Activation::geglu_tanh, "geglu_tanh"},
                                         {Activation::squared_relu, "squared_relu"}}) {
    INFO(name);
    CHECK(nn::name_of(activation) == std::string(name));
    const nn::FeedForward f(4, 6, nn::FeedForwardOptions().activation(activation));
    const Tensor h = f.fc(x);
    const Tensor post = activation == Activation::relu        ? relu(h)
                        : activation == Activation::gelu      ? gelu(h)
                        : activation == Activation::gelu_tanh ? gelu(h, Gelu::tanh)
                        : activation == Activation::swiglu    ? silu((*f.gate)(x)) * h
                        : activation == Activation::geglu     ? gelu((*f.gate)(x)) * h
                        : f.gate                              ? gelu((*f.gate)(x), Gelu::tanh) * h
                                                              : square(relu(h));
    CHECK(same_bits(f(x).detach(), f.proj(post).detach()));
  }
}

TEST_CASE("members are listed behind this->, and a forgotten buffer is told", "[edges]") {
  struct Plain final : nn::Layer {
    FIT_FIELDS_ONLY(this->weight, this->steps)
    nn::Parameter weight{ones({2})};
    nn::Buffer steps{zeros({1})};
  } plain;
  CHECK(plain.state_dict()[0].first == "weight");
  struct Forgetful final : nn::Layer {
    FIT_FIELDS_ONLY(weight)
    nn::Parameter weight{ones({2})};
    nn::Buffer steps{zeros({1})};
  } forgetful;
  CHECK_THROWS_WITH(forgetful.state_dict(), Contains("holds a Buffer after 'weight' that FIT_FIELDS does not name"));
}

TEST_CASE("a copy() with other members is refused by clone()", "[edges]") {
  struct Grows final : nn::Layer {
    explicit Grows(int kind) : kind(kind) {}
    void fields(nn::Fields& f) override { f.of(*this, kind == 0 ? "weight, linear" : "other, linear")(weight, linear); }
    std::shared_ptr<nn::Layer> copy() const override { return std::make_shared<Grows>(kind == 0 ? 1 : 0); }
    int kind;
    nn::Parameter weight{ones({2})};
    nn::Linear linear{1, 1};
  };
  CHECK_THROWS_WITH(Grows(0).clone(), Contains("gives a layer with other members: make it with the same arguments"));
}

TEST_CASE("layers of one's own that define no part of decoding say so", "[edges]") {
  struct Mean final : nn::AttentionLayer {
    Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                   const nn::AttentionContext& context) const override {
      if (context.weights) context.weights->push_back(full({1, 1, query.size(1), key.size(1)}, 1.));
      return broadcast_to(mean(value, 1, keepdims) * scale.value(), query.shape());
    }
    FIT_FIELDS_ONLY(scale)
    nn::Parameter scale{ones({1})};
  } attention;
  const Tensor x = randn({1, 3, 4}), memory = randn({1, 5, 4});
  CHECK(max_difference(attention(x, memory, memory), broadcast_to(mean(memory, 1, keepdims), x.shape())) == 0);
  CHECK(attention(x, memory, memory, nn::return_attention).weights.shape() == Shape{1, 1, 3, 5});
  nn::KVCache::Layer projected;  // a layer that projects nothing keeps nothing
  nn::AttentionContext context;
  context.projected = &projected;
  CHECK(same_bits(attention(x, memory, memory, context), attention(x, memory, memory)));
  CHECK_FALSE(projected.keys.defined());
  nn::KVCache cache({attention.cache_shape()}, 1, 3);
  context.cache = cache.past(0);
  CHECK_THROWS_WITH(attention(x, x, x, context),
                    "[Mean] the call has a cache, and cache_shape() is empty: decoding with a cache needs it");
  // A layer that knows nothing of sequences without padding gets them with padding.
  const Tensor mask = create_padding_mask(tensor({{1, 2, 0}})), one = randn({1, 3, 4});
  const nn::AttentionContext padded = nn::without_padding(mask, one);
  const Tensor rows = padded.padding->remove(one);
  const Tensor y = static_cast<const nn::AttentionLayer&>(attention)(rows, rows, rows, padded);
  CHECK(same_bits(y, padded.padding->remove(attention(padded.padding->restore(rows), padded.padding->restore(rows),
                                                      padded.padding->restore(rows)))));
}

TEST_CASE("attention of one and of two sequences returns its weights", "[edges]") {
  const nn::SelfAttention self(8, 2, 0.0);
  const nn::CrossAttention cross(8, 2, 0.0);
  const nn::CausalSelfAttention causal(8, 2, 0.0);
  const Tensor x = randn({1, 3, 8}), y = randn({1, 4, 8}), mask = tensor({{true, true, false}});
  CHECK(same_bits(self(x, nn::return_attention).output, self(x)));
  CHECK(values(self(x, mask, nn::return_attention).weights[{0, 0, range(), 2}]) == std::vector<double>{0, 0, 0});
  CHECK(cross(x, y, nn::return_attention).weights.shape() == Shape{1, 2, 3, 4});
  CHECK(same_bits(cross(y, x, mask, nn::return_attention).output, cross(y, x, mask)));
  CHECK(causal(x, nn::return_attention).weights[{0, 0, 0, 1}].item() == 0);
  CHECK(causal(x, mask, nn::return_attention).weights[{0, 0, 2, 2}].item() == 0);
}

TEST_CASE("layers and optimisers tell what they were made with", "[edges]") {
  const nn::LSTM lstm(3, 4, nn::RecurrentOptions().num_layers(2));
  CHECK(lstm.input_size() == 3);
  CHECK(lstm.hidden_size() == 4);
  CHECK(lstm.options().num_layers() == 2);
  CHECK(nn::Embedding(5, 2, 3).padding_idx() == 3);
  const nn::BERT bert(nn::BERTOptions().vocab_size(5).max_length(4).num_layers(1).d_model(8).num_heads(2));
  CHECK(bert.options().max_length() == 4);
  Tensor w = ones({2, 2}).requires_grad_();
  const optim::LBFGS lbfgs({w}, optim::LBFGSOptions().history_size(7));
  CHECK(lbfgs.options().history_size() == 7);
  CHECK(optim::Muon({w}, 0.5).lr() == 0.5);
  nn::CrossEntropyLoss weighted(nn::CrossEntropyOptions().weight(tensor({1., 3.})));
  CHECK(values(weighted.state_dict().at(0).second) == std::vector<double>{1, 3});
  CHECK(nn::MSELoss().state_dict().empty());
}

TEST_CASE("tables may have empty lines and any end of a line", "[edges]") {
  const Directory d;
  put(d.file("rows.csv"), "a,b\r\n\r\n1,2\r\n\n3,4");
  const Tensor rows = data::read_csv(d.file("rows.csv")).numbers();
  CHECK(equal(rows, tensor({{1., 2.}, {3., 4.}})));
}

TEST_CASE("a recorder takes attention over fewer keys than queries for cross-attention", "[edges]") {
  const nn::MultiHeadAttention attention(4, 2);
  nn::AttentionRecorder recorder(attention, nn::AttentionRecorderOptions().calls(2));
  const Tensor x = randn({1, 3, 4}), few = randn({1, 2, 4});
  attention(x, few, few);
  attention(x, x, x);
  attention(x, x, x);  // a third call in one step is left out
  REQUIRE(recorder.recording().records().size() == 2);
  CHECK(recorder.recording().records()[0].kind == AttentionKind::cross);
  CHECK(recorder.recording().records()[1].kind == AttentionKind::self);
}

TEST_CASE("a summary of layers without parameters, of small and of large ones", "[edges]") {
  nn::Sequential plain{nn::ReLU(), nn::Identity()};
  const nn::ModelSummary none = nn::summary(plain, ones({2, 3}));
  CHECK(none.trainable_parameters == 0);
  CHECK_THAT(none.str(), Contains("0 parameters"));
  struct Unused final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return x.detach(); }
    FIT_FIELDS_ONLY(one, two)
    nn::Parameter one{ones({2})}, two{one};
  } unused;
  CHECK_THAT(nn::summary(unused, ones({2})).str(), Contains("two is one, and counted there."));
}

}  // namespace fit::test::nn_edges_test
