#include "fit/nn/lens/lens.hpp"

#include <algorithm>
#include <cmath>

#include "fit/graph/named_values.hpp"
#include "fit/nn.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// A lens reads and edits runs.
namespace fit::test::lens_test {
namespace {

using Catch::Matchers::Contains;
using nn::head;
using nn::Lens;
using nn::LensRun;
using nn::position;
using nn::Positions;
using nn::Where;
using Strings = std::vector<std::string>;

nn::GPTOptions small(Positions positions = Positions::learned, std::int64_t kv_heads = 0) {
  return nn::GPTOptions()
      .vocab_size(11)
      .context_length(12)
      .num_layers(2)
      .num_heads(4)
      .d_model(16)
      .positions(positions)
      .num_kv_heads(kv_heads);
}

nn::GPT gpt_of(const nn::GPTOptions& o, DType dtype = float64) {
  manual_seed(5);
  nn::GPT gpt(o);
  for (Tensor p : gpt.parameters()) p.detach().add_(randn(p.shape()) * 0.1);
  gpt.to(dtype);
  gpt.eval();
  return gpt;
}

Tensor some_ids(std::int64_t T = 7) {
  manual_seed(6);
  return randint(0, 11, {2, T});
}

void check_close(const Tensor& a, const Tensor& b, double tolerance = 1e-11) {
  REQUIRE(a.shape() == b.shape());
  CHECK(max_difference(a, b) < tolerance);
}

// The model without a head: the columns of the output projection are zero.
template <class Model>
std::shared_ptr<Model> without_head(const Model& model, const std::string& projection, std::int64_t head,
                                    std::int64_t D) {
  auto other = nn::clone(model);
  Tensor w = other->parameter(projection + ".weight").detach();
  w[{range(), range(head * D, (head + 1) * D)}] = 0.0;
  return other;
}

Tensor apply(nn::GPT& gpt, const std::string& layer, const Tensor& x) {
  return dynamic_cast<nn::UnaryLayer&>(gpt.layer(layer))(x);
}

struct Mixer final : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return out(fit::observed("mixed", attention(x) + x)); }
  FIT_FIELDS(attention, out)
  nn::SelfAttention attention{8, 2, 0.0};
  nn::Linear out{8, 3};
};

struct TwoOutputs final : nn::Layer {
  std::pair<Tensor, Tensor> forward(const Tensor& x) const {
    const Tensor y = attention(x);
    return {mean_of(y), spread_of(y)};
  }
  FIT_FIELDS(attention, mean_of, spread_of)
  nn::SelfAttention attention{8, 2, 0.0};
  nn::Linear mean_of{8, 1}, spread_of{8, 1};
};

const auto every_kind = {Positions::none, Positions::learned, Positions::sinusoidal, Positions::rotary,
                         Positions::alibi};

}  // namespace

TEST_CASE("a run that keeps every value has the bits of the plain run, and attention stays fused", "[lens]") {
  const Tensor ids = some_ids();
  for (const Positions positions : every_kind)
    for (const std::int64_t kv_heads : {0, 2}) {
      const nn::GPT gpt = gpt_of(small(positions, kv_heads), float32);
      const Lens lens(gpt);
      const LensRun run = lens.run(ids);
      const Tensor plain = gpt(ids);
      CHECK(same_bits(run.output, plain));
      CHECK(same_bits(run["out"], plain));
      CHECK(same_bits(lens.run(ids, {}).output, plain));
      // A lens that neither keeps nor edits is the plain call: no observer is attached, so its speed is the same.
      const auto unobserved = [&] {
        CHECK(detail::thread_state.observed == nullptr);
        return gpt(ids);
      };
      CHECK(same_bits(lens.run(unobserved, {}).output, plain));
      CHECK(run["h.0.attn.z"].shape() == Shape{2, 4, 7, 4});
      CHECK(run["h.0.attn.k"].shape() == Shape{2, kv_heads == 0 ? 4 : kv_heads, 7, 4});
      CHECK(run.names() == lens.names(ids));
      struct Ops final : Observer {
        void op_recorded(const OpEvent& e) override { attention += e.op == std::string("attention"); }
        int attention = 0;
      } counter;
      {
        const Observe watching(counter);
        lens.run(ids);
      }
      CHECK(counter.attention == 2);
    }
}

TEST_CASE("the names of the values of a GPT", "[lens]") {
  const nn::GPT gpt = gpt_of(small(Positions::rotary).num_layers(1));
  const Strings names = Lens(gpt).names(some_ids());
  Strings inner;  // without the inputs and outputs of layers
  for (const std::string& name : names)
    if (name.rfind(".in") != name.size() - 3 && name.rfind(".out") != name.size() - 4) inner.push_back(name);
  CHECK(inner == Strings{"h.0.resid_pre", "h.0.ln_1.scale", "h.0.attn.q_unrotated", "h.0.attn.k_unrotated",
                         "h.0.attn.q", "h.0.attn.k", "h.0.attn.v", "h.0.attn.scores", "h.0.attn.weights", "h.0.attn.z",
                         "h.0.attn.head_out", "h.0.resid_mid", "h.0.ln_2.scale", "h.0.mlp.pre", "h.0.mlp.post",
                         "h.0.resid_post", "ln_f.scale"});
  for (const char* layer : {"wte", "h.0", "h.0.ln_1", "h.0.attn", "h.0.attn.qkv", "h.0.mlp.fc", "ln_f", "head"})
    for (const char* suffix : {".in", ".out"})
      CHECK(std::count(names.begin(), names.end(), std::string(layer) + suffix) == 1);
  const LensRun run = Lens(gpt).run(some_ids(), {"h.*.attn.z", "ln_f.out"});
  CHECK(run.names() == Strings{"h.0.attn.z", "ln_f.out"});
  CHECK(run.names("*.z") == Strings{"h.0.attn.z"});
}

TEST_CASE("values are those of the formulas", "[lens]") {
  const Positions positions = GENERATE(Positions::none, Positions::rotary, Positions::alibi);
  const std::int64_t kv_heads = GENERATE(4, 2), D = 4, T = 7;
  nn::GPT gpt = gpt_of(small(positions, kv_heads).bias(true));
  const LensRun run = Lens(gpt).run(some_ids(T));
  const auto at = [&](const std::string& suffix) { return run["h.1." + suffix]; };
  const Tensor joint = apply(gpt, "h.1.attn.qkv", at("ln_1.out"));
  const auto split = [&](std::int64_t from, std::int64_t heads) {
    return transpose(slice(joint, 2, from * D, (from + heads) * D).reshape({2, T, heads, D}), 1, 2);
  };
  Tensor q = split(0, 4), k = split(4, kv_heads);
  const Tensor v = split(4 + kv_heads, kv_heads);
  if (positions == Positions::rotary) {
    check_close(at("attn.q_unrotated"), q);
    check_close(at("attn.k_unrotated"), k);
    const auto turned = [&](const Tensor& x) {
      return rotary(x, nn::rotary_table(12, D), RotaryOptions().layout(RotaryLayout::half_split));
    };
    q = turned(q), k = turned(k);
  }
  check_close(at("attn.q"), q);
  check_close(at("attn.k"), k);
  check_close(at("attn.v"), v);
  const auto repeated = [&](const Tensor& x) {
    return broadcast_to(unsqueeze(x, 2), {2, kv_heads, 4 / kv_heads, T, D}).reshape({2, 4, T, D});
  };
  Tensor scores = matmul(q, transpose(repeated(k))) / std::sqrt(static_cast<double>(D));
  if (positions == Positions::alibi) {
    const Tensor distance = arange(T).to(float64).reshape({T, 1}) - arange(T).to(float64);
    scores = scores - nn::alibi_slopes(4).to(float64).reshape({4, 1, 1}) * distance;
  }
  const Tensor causal = tril(ones({T, T})) != 0;
  const Tensor weights = softmax(masked_fill(scores, logical_not(causal), -INFINITY));
  check_close(masked_fill(at("attn.scores"), logical_not(causal), 0), masked_fill(scores, logical_not(causal), 0));
  CHECK(all(eq(masked_fill(at("attn.scores"), causal, -INFINITY), -INFINITY)).item<bool>());
  check_close(at("attn.weights"), weights);
  const Tensor z = matmul(weights, repeated(v));
  check_close(at("attn.z"), z);
  check_close(sum(at("attn.head_out"), 1) + gpt.parameter("h.1.attn.proj.bias"), at("attn.out"));
  check_close(at("attn.head_out")[{range(), 2}],
              matmul(z[{range(), 2}], transpose(gpt.parameter("h.1.attn.proj.weight"))[{range(8, 12)}]));
  CHECK(same_bits(at("resid_pre"), run["h.0.resid_post"]));
  check_close(at("resid_pre") + at("attn.out"), at("resid_mid"));
  check_close(at("resid_mid") + at("mlp.out"), at("resid_post"));
  check_close(gelu(at("mlp.pre"), Gelu::tanh), at("mlp.post"));
  check_close(apply(gpt, "h.1.mlp.fc", at("ln_2.out")), at("mlp.pre"));
}

TEST_CASE("a gated feed-forward layer has the argument of its activation, and the product", "[lens]") {
  manual_seed(1);
  const nn::FeedForward mlp(4, 6, nn::FeedForwardOptions().activation(nn::Activation::swiglu));
  const Tensor x = randn({2, 3, 4});
  const LensRun run = Lens(mlp).run(x);
  CHECK(same_bits(run["pre"], (*mlp.gate)(x)));
  CHECK(same_bits(run["post"], silu((*mlp.gate)(x)) * mlp.fc(x)));
  CHECK(same_bits(run["in"], x));
  CHECK(same_bits(run["out"], mlp(x)));
}

TEST_CASE("a head whose output is zero equals zero columns of the projection, with and without a cache", "[lens]") {
  const Tensor ids = some_ids();
  for (const Positions positions : every_kind)
    for (const std::int64_t kv_heads : {0, 2}) {
      const nn::GPT gpt = gpt_of(small(positions, kv_heads));
      const auto by_hand = without_head(gpt, "h.1.attn.proj", 3, 4);
      const Tensor expected = (*by_hand)(ids);
      const Lens lens(gpt);
      CHECK(max_difference(expected, gpt(ids)) > 1e-3);
      check_close(lens.with("h.1.attn.z", head(3), nn::zero()).run(ids, {}).output, expected);
      check_close(lens.with("h.1.attn.head_out", head(-1), nn::zero()).run(ids, {}).output, expected);
      check_close(lens.with("h.1.attn.weights", head(3), nn::zero()).run(ids, {}).output, expected);
      const auto cached = [&] {
        nn::KVCache cache = gpt.make_cache(2);
        const Tensor prompt = gpt(slice(ids, 1, 0, 4), cache);
        Tensor logits = prompt;
        for (std::int64_t t = 4; t < 7; ++t) logits = cat({logits, gpt(slice(ids, 1, t, t + 1), cache)}, 1);
        return logits;
      };
      const LensRun run = lens.with("h.1.attn.z", head(3), nn::zero()).run(cached, {"h.1.attn.z", "h.0.attn.weights"});
      check_close(run.output, expected);
      CHECK(run.calls("h.1.attn.z").size() == 4);
      CHECK(run["h.0.attn.weights"].shape() == Shape{2, 4, 1, 7});
      check_close(lens.with("h.1.attn.weights", head(3), nn::zero()).run(cached, {}).output, expected);
    }
}

TEST_CASE("edits of encoders and decoders equal the network by hand", "[lens]") {
  manual_seed(3);
  const Tensor mask = create_padding_mask(tensor({{1, 2, 3, 4, 5}, {1, 2, 3, 0, 0}}));
  const Tensor ids = tensor({{1, 2, 3, 4, 5}, {1, 2, 3, 0, 0}});
  SECTION("BERT, which skips the padding") {
    nn::BERTOptions o;
    o.vocab_size(9).num_layers(2).d_model(8).num_heads(2).max_length(6).dropout(0);
    nn::BERT bert(o);
    bert.to(float64);
    bert.eval();
    const auto by_hand = without_head(bert, "encoder.layers.1.self_attn.w_o", 1, 4);
    const Lens lens(bert);
    const auto call = [&] { return bert(ids, mask); };
    const LensRun run = lens.run(call);
    CHECK(same_bits(run.output, bert(ids, mask)));
    CHECK(run["encoder.layers.0.resid_mid"].shape() == Shape{8, 8});
    CHECK(run["encoder.layers.0.self_attn.z"].shape() == Shape{2, 2, 5, 4});
    CHECK(run["encoder.layers.0.self_attn.head_out"].shape() == Shape{1, 2, 8, 8});
    for (const char* name : {"z", "head_out", "weights"})
      check_close(
          lens.with("encoder.layers.1.self_attn." + std::string(name), head(1), nn::zero()).run(call, {}).output,
          (*by_hand)(ids, mask));
  }
  SECTION("an encoder and a decoder") {
    nn::TransformerOptions o;
    o.source_vocab(9).target_vocab(9).max_length(8).num_encoder_layers(1).num_decoder_layers(2).d_model(8).num_heads(2);
    o.norm_first(true).num_kv_heads(1);
    nn::Transformer model(o);
    model.to(float64);
    model.eval();
    const Tensor target = tensor({{1, 4, 2}, {3, 5, 1}});
    const auto by_hand = without_head(model, "decoder.layers.1.cross_attn.w_o", 0, 4);
    const Tensor expected = (*by_hand)(ids, target, mask);
    const Lens lens(model);
    CHECK_THROWS_WITH(lens.run(ids), Contains("[Lens] the model's call does not take one tensor"));
    const auto call = [&] { return model(ids, target, mask); };
    const LensRun run = lens.run(call);
    CHECK(same_bits(run.output, model(ids, target, mask)));
    check_close(run["decoder.layers.0.resid_mid"] + run["decoder.layers.0.cross_attn.out"],
                run["decoder.layers.0.resid_cross"]);
    const Lens edited = lens.with("decoder.layers.1.cross_attn.z", head(0), nn::zero());
    check_close(edited.run(call, {}).output, expected);
    const auto cached = [&] {
      nn::DecoderCache cache = model.make_cache(ids, mask);
      const Tensor first = model.decode(slice(target, 1, 0, 2), cache);
      return cat({first, model.decode(slice(target, 1, 2, 3), cache)}, 1);
    };
    check_close(edited.run(cached, {}).output, expected);
  }
}

TEST_CASE("a patched run equals the blocks called by hand with the other values", "[lens]") {
  const Positions positions =
      GENERATE(Positions::none, Positions::learned, Positions::sinusoidal, Positions::rotary, Positions::alibi);
  nn::GPT gpt = gpt_of(small(positions, GENERATE(0, 2)));
  manual_seed(8);
  const Tensor ids = some_ids(), other_ids = randint(0, 11, {2, 7});
  const Lens lens(gpt);
  const LensRun run = lens.run(ids), other = lens.run(other_ids);
  Tensor x = run["h.0.resid_post"].detach().clone();
  x[{range(), 2}] = other["h.0.resid_post"][{range(), 2}];
  const Tensor expected = gpt.head(apply(gpt, "ln_f", apply(gpt, "h.1", x)));
  for (const char* name : {"h.0.resid_post", "h.1.resid_pre", "h.0.out", "h.1.in"})
    check_close(lens.with(name, position(2), nn::from(other)).run(ids, {}).output, expected);
  check_close(lens.with("h.1.resid_pre", position(-5), nn::from(other)).run(ids, {}).output, expected);
  check_close(lens.with("h.1.resid_pre", nn::from(other)).run(ids, {}).output, gpt(other_ids));
  // Token by token with a cache: position 2 is in the second call.
  const auto cached = [&](const Lens& with, const Tensor& text, std::vector<LensRun>* runs) {
    nn::KVCache cache = gpt.make_cache(2);
    std::vector<Tensor> logits;
    for (std::int64_t t = 0; t < 7; t += 2) {
      const auto call = [&] { return gpt(slice(text, 1, t, std::min<std::int64_t>(t + 2, 7)), cache); };
      runs->push_back((t == 2 ? with : Lens(gpt)).run(call, {"h.1.resid_pre"}));
      logits.push_back(runs->back().output);
    }
    return cat(logits, 1);
  };
  std::vector<LensRun> runs, others;
  cached(lens, other_ids, &others);
  check_close(cached(lens.with("h.1.resid_pre", position(0), nn::from(others[1])), ids, &runs), expected);
  // One neuron.
  Tensor post = run["h.1.mlp.post"].detach().clone();
  post[{0, range(), 9}] = 0.5;
  const Tensor mlp = apply(gpt, "h.1.mlp.proj", post);
  const Tensor one = gpt.head(apply(gpt, "ln_f", run["h.1.resid_mid"] + mlp));
  const auto half = [](const Tensor& value) { return full(value.shape(), 0.5, float64); };
  check_close(lens.with("h.1.mlp.post", Where().features({9}).elements({0}), half).run(ids, {}).output, one);
  // The mean over batch and positions.
  const Tensor mean_z = mean(run["h.1.attn.z"], {0, 2}, keepdims);
  const LensRun ablated = lens.with("h.1.attn.z", nn::mean_of(run)).run(ids, {"h.1.attn.z"});
  check_close(ablated["h.1.attn.z"], broadcast_to(mean_z, {2, 4, 7, 4}));
}

TEST_CASE("an edit from a run takes the value of the same call", "[lens]") {
  manual_seed(9);
  nn::TransformerOptions o;
  o.source_vocab(5).target_vocab(6).max_length(4).num_encoder_layers(1).num_decoder_layers(1).d_model(8).num_heads(2);
  nn::Transformer model(o);
  model.eval();
  const Tensor source = tensor({{1, 2, 3}}), target = tensor({{1, 4, 5}});
  const auto call = [&] { return model(source, target); };
  const auto twice = [&] { return call() + call(); };
  const Lens lens(model);
  const LensRun run = lens.run(call);
  REQUIRE(run.calls("dropout.out").size() == 2);  // of the encoder and the decoder
  CHECK(same_bits(lens.with("dropout.out", nn::from(run)).run(call, {"out"}).output, run.output));
  const LensRun means = lens.with("dropout.out", nn::mean_of(run)).run(call);
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor mean_of_call = mean(run.calls("dropout.out")[i], {0, 1}, keepdims);
    check_close(means.calls("dropout.out")[i], broadcast_to(mean_of_call, {1, 3, 8}), 1e-6);
  }
  CHECK_THROWS_WITH(lens.with("dropout.out", nn::from(run)).run(twice),
                    Contains("[from] 'dropout.out' is computed more than 2 times, as in the other run"));
  // The value of a single call serves all.
  CHECK(same_bits(lens.with("out", nn::from(run)).run(twice).output, run.output + run.output));
}

TEST_CASE("an edit by the number of the call is the same one where checkpoint() computes again", "[lens]") {
  nn::GPT plain = gpt_of(small()), again = gpt_of(small().checkpoint_blocks());
  const Tensor ids = some_ids(), other = randint(0, 11, {2, 7});
  const auto loss = [](const nn::GPT& gpt, const Tensor& batch) { return gpt.loss(batch, batch); };
  const auto double_first = [](const std::string&, const Tensor& x, std::size_t call) { return call == 0 ? x * 2 : x; };
  const auto run = [&](const nn::GPT& gpt, const auto& f) {
    const LensRun result = Lens(gpt).with("h.0.resid_mid", double_first).run([&] {
      const Tensor y = f(gpt);
      y.backward();
      return y;
    });
    CHECK(result.calls("h.0.resid_mid").size() == 1);
    return result.output;
  };
  const auto once = [&](const nn::GPT& gpt) { return loss(gpt, ids); };
  CHECK(same_bits(run(again, once), run(plain, once)));
  const auto expected = plain.parameters(), got = again.parameters();
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(same_bits(got[i].grad(), expected[i].grad()));
  const auto told = Contains("[checkpoint] f gave other numbers");
  CHECK_THROWS_WITH(run(again, [&](const nn::GPT& gpt) { return once(gpt) + loss(gpt, other); }), told);
  const Tensor outside = Lens(again).with("h.1.attn.z", nn::zero()).run([&] { return once(again); }, {}).output;
  CHECK_THROWS_WITH(outside.backward(), told);
}

TEST_CASE("scores, weights, queries and what comes before the rotation can be edited", "[lens]") {
  nn::GPT gpt = gpt_of(small(Positions::rotary, 2));
  const Tensor ids = some_ids();
  const Lens lens(gpt);
  const LensRun run = lens.run(ids);
  // Equal scores: the mean of all values so far.
  const LensRun flat = lens.with("h.1.attn.scores", head(0), nn::zero()).run(ids);
  const Tensor v = run["h.1.attn.v"][{range(), 0}];
  const Tensor counts = (arange(7).to(float64) + 1).reshape({7, 1});
  check_close(flat["h.1.attn.z"][{range(), 0}], cumsum(v, 1) / counts);
  check_close(flat["h.1.attn.z"][{range(), 1}], run["h.1.attn.z"][{range(), 1}]);
  // A query of 0 has equal scores, too.
  for (const char* name : {"h.1.attn.q", "h.1.attn.q_unrotated"})
    check_close(lens.with(name, head(0), nn::zero()).run(ids, {}).output, flat.output);
  // A shared key of 0.
  const Tensor by_key = lens.with("h.1.attn.k_unrotated", head(0), nn::zero()).run(ids, {}).output;
  const Tensor by_scores = lens.with("h.1.attn.scores", Where().heads({0, 1}), nn::zero()).run(ids, {}).output;
  check_close(by_key, by_scores);
  // All weight on the first key.
  const auto first = [](const Tensor& w) { return broadcast_to((arange(7) == 0).to(float64), w.shape()); };
  const LensRun sink = lens.with("h.1.attn.weights", first).run(ids);
  check_close(sink["h.1.attn.z"][{range(), 3}], broadcast_to(run["h.1.attn.v"][{range(), 1, range(0, 1)}], {2, 7, 4}));
  CHECK(same_bits(sink["h.1.attn.weights"][{0, 0}], first(zeros({7, 7}, float64))));
}

TEST_CASE("gradients under edits are those of the network by hand", "[lens]") {
  const nn::GPT gpt = gpt_of(small(Positions::rotary));
  const auto by_hand = without_head(gpt, "h.0.attn.proj", 2, 4);
  const Tensor ids = some_ids(), targets = flip(ids, 1);
  const auto measure = [&] { return gpt.loss(ids, targets); };
  const LensRun run = Lens(gpt).with("h.0.attn.z", head(2), nn::zero()).run(measure, {"h.0.resid_mid"});
  const auto gradients = [](const nn::GPT& model, const Tensor& loss) {
    std::vector<Tensor> leaves;
    for (const auto& [name, p] : model.named_parameters()) {
      if (name == "h.0.attn.proj.weight") continue;  // zero columns get a gradient
      leaves.push_back(p);
    }
    return grad(loss, leaves);
  };
  const auto a = gradients(gpt, run.output), b = gradients(*by_hand, by_hand->loss(ids, targets));
  for (std::size_t i = 0; i < a.size(); ++i) check_close(a[i], b[i]);
  CHECK(grad(Lens(gpt).run(measure, {"h.0.resid_mid"})["h.0.resid_mid"].sum(), {gpt.wte.weight})[0].defined());
  // Through what an edit puts in place, and through weights.
  for (const char* name : {"h.1.attn.z", "h.1.attn.weights", "h.1.attn.scores", "h.1.mlp.pre"}) {
    const auto f = [&](const std::vector<Tensor>& in) {
      return Lens(gpt).with(name, [&](const Tensor& x) { return x * in[0]; }).run(measure, {}).output;
    };
    CHECK(check_gradients(f, {ones({1}, float64)}).ok);
  }
}

TEST_CASE("a layer of one's own offers values, and has the names of its parts", "[lens]") {
  Mixer net;
  const Tensor x = randn({1, 4, 8});
  const Lens lens(net);
  const LensRun run = lens.run(x, {"mixed", "attention.multihead_attn.z"});
  CHECK(same_bits(run["mixed"], net.attention(x) + x));
  CHECK(run["attention.multihead_attn.z"].shape() == Shape{1, 2, 4, 4});
  CHECK(same_bits(lens.with("mixed", nn::zero()).run(x, {}).output, net.out(zeros({1, 4, 8}))));
}

TEST_CASE("a model with two outputs is called by a function, which chooses one", "[lens]") {
  manual_seed(7);
  const TwoOutputs model;
  const Tensor x = randn({2, 5, 8});
  const Lens lens(model);
  CHECK_THROWS_WITH(lens.run(x), Contains("the model's call does not take one tensor: give a function that calls it"));
  const LensRun run = lens.run([&] { return model(x).second; });
  CHECK(same_bits(run.output, model(x).second));
  CHECK(same_bits(run["mean_of.out"], model(x).first));
  CHECK(run["attention.multihead_attn.weights"].shape() == Shape{2, 2, 5, 5});
  const Lens without = lens.with("attention.multihead_attn.z", nn::head(0), nn::zero());
  CHECK(max_difference(without.run([&] { return model(x).first; }).output, model(x).first) > 1e-3);
}

TEST_CASE("mistakes with a lens are errors that name the value", "[lens]") {
  const nn::GPT gpt = gpt_of(small());
  const Tensor ids = some_ids();
  const Lens lens(gpt);
  CHECK_THROWS_WITH(lens.run(ids, {"h.1.attn.zz"}), Contains("[Lens] nothing is called 'h.1.attn.zz'"));
  CHECK_THROWS_WITH(lens.with("h.7.attn.z", nn::zero()).run(ids), Contains("nothing is called 'h.7.attn.z'"));
  CHECK_THROWS_WITH(lens.run(ids, {"h.1.attn.z"})["h.1.attn.q"],
                    Contains("[LensRun] the run has kept no value 'h.1.attn.q': do you mean 'h.1.attn.z'?"));
  CHECK_THROWS_WITH(lens.with("h.1.attn.z", head(4), nn::zero()).run(ids),
                    Contains("[Lens] head 4 is edited in 'h.1.attn.z', which is [2, 4, 7, 4]: there are 4"));
  CHECK_THROWS_WITH(lens.with("h.1.resid_mid", head(0), nn::zero()).run(ids),
                    Contains("[Lens] heads of 'h.1.resid_mid' are edited, which is [2, 7, 16]: it has none"));
  CHECK_THROWS_WITH(lens.with("h.1.resid_mid", [](const Tensor&) { return zeros({5}, float64); }).run(ids),
                    Contains("[broadcast_to]"));
  CHECK_THROWS_WITH(lens.with("h.1.attn.z", nn::from(lens.run(some_ids(5)))).run(ids),
                    Contains("[from] 'h.1.attn.z' is [2, 4, 7, 4] here and [2, 4, 5, 4] in the other run"));
}

// ---- questions ----------------------------------------------------------------------------------------------------

TEST_CASE("ablate_heads and patches measure what the edits do one by one", "[lens]") {
  const nn::GPT gpt = gpt_of(small());
  const Tensor ids = some_ids(), other_ids = flip(ids, 1);
  const Lens lens(gpt);
  const auto measure = [&] { return gpt.loss(ids, other_ids); };
  const double plain = measure().item();
  const Tensor zeroed = ablate_heads(lens, measure), mean = ablate_heads(lens, measure, nn::Ablation::mean);
  CHECK(zeroed.shape() == Shape{2, 4});
  CHECK_FALSE(zeroed.requires_grad());
  const auto by_hand = without_head(gpt, "h.1.attn.proj", 2, 4);
  CHECK(zeroed[{1, 2}].item() == Approx(by_hand->loss(ids, other_ids).item() - plain).margin(1e-6));
  const LensRun run = lens.run(ids), other = lens.run(other_ids);
  CHECK(mean[{0, 1}].item() ==
        Approx(lens.with("h.0.attn.z", head(1), nn::mean_of(run)).run(measure, {}).output.item() - plain).margin(1e-6));
  const Tensor each = ablate_heads(lens, measure, nn::Ablation::position_mean);
  const auto own = [&](const Tensor&) { return fit::mean(run["h.0.attn.z"], 0, keepdims); };
  CHECK(each[{0, 1}].item() ==
        Approx(lens.with("h.0.attn.z", head(1), own).run(measure, {}).output.item() - plain).margin(1e-6));
  CHECK(std::abs(each[{0, 1}].item() - mean[{0, 1}].item()) > 1e-6);
  const Tensor sweep = patch_sweep(lens, other, measure), heads = patch_heads(lens, other, measure);
  CHECK(sweep.shape() == Shape{2, 7});
  CHECK(sweep[{1, 3}].item() ==
        Approx(lens.with("h.1.resid_pre", position(3), nn::from(other)).run(measure, {}).output.item() - plain)
            .margin(1e-6));
  CHECK(heads[{1, 0}].item() ==
        Approx(lens.with("h.1.attn.z", head(0), nn::from(other)).run(measure, {}).output.item() - plain).margin(1e-6));
  CHECK_THROWS_WITH(ablate_heads(lens, [&] { return gpt(ids); }),
                    Contains("[ablate_heads] the measure has shape [2, 7, 11]: it must be one number"));
  CHECK_THROWS_WITH(patch_heads(lens, lens.run(ids, {"out"}), measure),
                    Contains("[patch_heads] the run has kept no value '*.z'"));
}

TEST_CASE("the contributions of a logit_attribution sum to the logit", "[lens]") {
  const Tensor ids = some_ids();
  for (const Positions positions : every_kind)
    for (const bool bias : {false, true}) {
      const nn::GPT gpt = gpt_of(small(positions, 2).bias(bias));
      const nn::LogitAttribution a = logit_attribution(gpt, ids, 3, 4);
      CHECK(a.logit == Approx(gpt(ids)[{0, 4, 3}].item()).epsilon(1e-12));
      CHECK(a.sum() == Approx(a.logit).margin(1e-5));
      CHECK(a.heads.shape() == Shape{2, 4});
      CHECK(a.mlps.shape() == Shape{2});
      CHECK(bias == (max(abs(a.attention_bias)).item() > 1e-9));
      CHECK(logit_attribution(gpt, ids, 3).logit == Approx(gpt(ids)[{0, 6, 3}].item()).epsilon(1e-12));
    }
  for (const auto& o : {small().norm(nn::Norm::none), small().attention_only(true),
                        small().attention_only(true).norm(nn::Norm::none).tie_weights(false).head_bias(true)}) {
    const nn::GPT gpt = gpt_of(o);
    const nn::LogitAttribution a = logit_attribution(gpt, ids, 3, 4);
    CHECK(a.sum() == Approx(a.logit).margin(1e-5));
    CHECK(a.mlps.shape() == Shape{o.attention_only() ? 0 : 2});
    CHECK(a.constant == Approx(o.head_bias() ? gpt.head.bias.value()[3].item() : a.constant));
    CHECK(ablate_heads(Lens(gpt), [&] { return gpt.loss(ids, ids); }).shape() == Shape{2, 4});
  }
  // Norms behind the branches scale what these add.
  for (const nn::NormPlace place : {nn::NormPlace::after, nn::NormPlace::both})
    for (const nn::Norm norm : {nn::Norm::layer, nn::Norm::rms}) {
      nn::GPT gpt = gpt_of(small(Positions::rotary).norm_place(place).norm(norm).logit_cap(2));
      const Lens lens(gpt);
      const nn::LogitAttribution a = logit_attribution(gpt, ids, 3, 4);
      CHECK(a.logit == Approx(lens.run(ids)["head.out"][{0, 4, 3}].item()).epsilon(1e-12));
      CHECK(a.sum() == Approx(a.logit).margin(1e-5));
      // By hand, for the last layer: the norm's output without a part of its input, at the same scale.
      const LensRun run = lens.run(ids);
      const auto at = [&](const std::string& name) { return run[name][{0, 4}]; };
      const Tensor head_out = run["h.1.attn.head_out"][{0, 2, 4}], w = gpt.parameter("h.1.post_ln_1.weight");
      const Tensor x = at("h.1.attn.out"), y = at("h.1.post_ln_1.out");
      const auto centred = [&](const Tensor& z) { return norm == nn::Norm::layer ? z - mean(z) : z; };
      const double eps = gpt.options().norm_eps();
      const auto deviation = [&](const Tensor& z) { return sqrt(mean(z * z) + eps); };
      const Tensor part = centred(head_out) / deviation(centred(x)) * w, last = at("h.1.resid_post");
      const Tensor through = centred(part) / deviation(centred(last)) * gpt.parameter("ln_f.weight");
      CHECK(a.heads[{1, 2}].item() == Approx(sum(through * gpt.head.weight.value()[3]).item()).margin(1e-5));
      CHECK(max_difference(at("h.1.resid_pre") + y, at("h.1.resid_mid")) < 1e-12);
    }
  nn::GPT other = gpt_of(small().dropout(0.5));
  const auto twice = [](const nn::Layer&, const Tensor& y) { return y * 2; };
  const auto doubled = nn::register_forward_hook(other.layer("h.0"), twice);
  CHECK_THROWS_WITH(
      logit_attribution(other, ids, 3),
      Contains("the blocks must add to the residual, as GPTBlock does; ablate_heads() needs no such sum"));
  other.train();
  CHECK_THROWS_WITH(logit_attribution(other, ids, 3), Contains("the model has dropout and is in training"));
  CHECK_THROWS_WITH(logit_attribution(gpt_of(small()), ids, 11), Contains("token is 11: it must be in 0 … 10"));
}

TEST_CASE("head_scores know the three patterns", "[lens]") {
  const nn::GPT gpt = gpt_of(small());
  const Tensor ids = tensor({{3, 5, 7, 3, 5, 7, 3}});
  Tensor pattern = zeros({1, 4, 7, 7});
  for (int i = 1; i < 7; ++i) pattern[{0, 0, i, i - 1}] = 1.0;              // previous token
  for (int i = 3; i < 7; ++i) pattern[{0, 1, i, i - 3}] = 0.5;              // duplicate
  for (int i = 3; i < 7; ++i) pattern[{0, 2, i, i - 2}] = i < 5 ? 1 : 0.5;  // induction
  pattern[{0, 3}] = 1. / 7;
  const LensRun run = Lens(gpt).with("*.weights", [&](const Tensor&) { return pattern; }).run(ids);
  const nn::HeadScores scores = head_scores(run, ids);
  CHECK(allclose(scores.previous[0], tensor({1., 0., 0., 1. / 7})));
  CHECK(allclose(scores.duplicate[0], tensor({0., 0.5, 0., 1.25 / 7})));  // the last query has two duplicates
  CHECK(allclose(scores.induction[1], tensor({0., 0., 0.75, 1.25 / 7})));
  // Behind a token's earlier occurrence stands the token itself, if it is repeated at once.
  const nn::HeadScores repeated = head_scores(run, tensor({{1, 2, 3, 4, 4, 5, 6}}));
  CHECK(allclose(repeated.duplicate[0], tensor({1., 0., 0., 1. / 7})));
  CHECK(allclose(repeated.induction[0], tensor({0., 0., 0., 1. / 7})));
  const Tensor distinct = tensor({{1, 2, 3, 4, 5, 6, 7}});
  CHECK(std::isnan(head_scores(run, distinct).induction[{0, 0}].item()));
  CHECK_THROWS_WITH(head_scores(run, some_ids()), Contains("[head_scores] ids has shape [2, 7]"));
}

TEST_CASE("logit_lens of the last block is the model's answer", "[lens]") {
  nn::GPT gpt = gpt_of(small());
  const Tensor ids = some_ids(), targets = flip(ids, 1);
  const LensRun run = Lens(gpt).run(ids);
  const auto unembed = [&](const Tensor& x) { return gpt.head(apply(gpt, "ln_f", x)); };
  const Tensor p = logit_lens(run, unembed, targets);
  CHECK(p.shape() == Shape{2, 7});
  const Tensor expected = gather(softmax(gpt(ids)), -1, unsqueeze(targets, -1)).squeeze(-1);
  CHECK(max_difference(p[1].to(float64), mean(expected, 0)) < 1e-6);
  CHECK_THROWS_WITH(logit_lens(run, unembed, some_ids(3)), Contains("[logit_lens] targets has shape [2, 3]"));
}

TEST_CASE("integrated gradients sum to the difference; a rollout's rows sum to 1", "[lens]") {
  const nn::GPT gpt = gpt_of(small());
  const Tensor ids = some_ids(), targets = flip(ids, 1);
  const Lens lens(gpt);
  const auto measure = [&] { return gpt.loss(ids, targets); };
  const double change = measure().item() - lens.with("wte.out", nn::zero()).run(measure, {}).output.item();
  const Tensor a = integrated_gradients(lens, "wte.out", measure, {}, 200);
  CHECK(a.shape() == Shape{2, 7, 16});
  CHECK(sum(a).item() == Approx(change).epsilon(1e-3));
  CHECK(std::abs(sum(integrated_gradients(lens, "wte.out", measure, lens.run(ids)["wte.out"])).item()) < 1e-12);
  const Tensor rollout = attention_rollout(lens.run(ids));
  CHECK(rollout.shape() == Shape{2, 7, 7});
  CHECK(max_difference(sum(rollout, -1), ones({2, 7})) < 1e-6);
  CHECK(same_bits(rollout, tril(rollout)));
}

}  // namespace fit::test::lens_test
