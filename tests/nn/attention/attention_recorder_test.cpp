#include "fit/nn/attention/attention_recorder.hpp"

#include <map>
#include <optional>
#include <set>
#include <thread>

#include "fit/nn/attention/attention.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::attention_recorder_test {
namespace {

using Catch::Matchers::Contains;

std::set<std::string> layers_of(const AttentionRecording& recording) {
  std::set<std::string> names;
  for (const AttentionRecord& r : recording.records()) names.insert(r.layer);
  return names;
}

nn::GPTOptions small_gpt() {
  return nn::GPTOptions().vocab_size(11).context_length(12).num_layers(2).num_heads(2).d_model(8);
}

bool rows_sum_to_one(const Tensor& weights) {
  const Tensor sums = sum(weights, -1);
  return max(abs(sums - ones_like(sums))).item() < 1e-5;
}

}  // namespace

TEST_CASE("a recorder has the weights that the layer returns, and its mask, and changes no bit") {
  manual_seed(1);
  nn::CausalSelfAttention layer(12, 3);
  layer.eval();
  const Tensor x = randn({2, 5, 12}), mask = create_padding_mask(tensor({{1, 2, 3, 4, 5}, {1, 2, 3, 0, 0}}));
  const auto [y, weights] = layer(x, mask, nn::return_attention);
  const nn::AttentionRecorder recorder(layer, nn::AttentionRecorderOptions().element(1));
  CHECK(equal(layer(x, mask), y));
  const AttentionRecording recording = recorder.recording();
  REQUIRE(recording.records().size() == 1);
  const AttentionRecord& r = recording.records()[0];
  CHECK(r.layer == "multihead_attn");
  CHECK(equal(r.weights, weights[1]));
  CHECK(r.causal);
  CHECK(r.kind == AttentionKind::self);
  CHECK(equal(r.mask, tensor({{{true, true, true, false, false}}})));
}

TEST_CASE("weights are recorded before dropout, and neither loss nor gradients change in training") {
  const auto train = [](bool record) {
    manual_seed(3);
    nn::GPTOptions options = small_gpt();
    options.dropout(0.4);
    nn::GPT model(options);
    std::optional<nn::AttentionRecorder> recorder;
    if (record) recorder.emplace(model);
    const Tensor ids = tensor({{1, 2, 3, 4}, {5, 6, 7, 8}});
    const Tensor loss = model.loss(ids, ids);
    loss.backward();
    std::vector<Tensor> values{loss.detach()};
    for (const Tensor& p : model.parameters()) values.push_back(p.grad());
    if (record) {
      const AttentionRecording recording = recorder->recording();
      CHECK(layers_of(recording) == std::set<std::string>{"h.0.attn", "h.1.attn"});
      for (const AttentionRecord& r : recording.records()) {
        CHECK(r.weights.shape() == Shape{2, 4, 4});
        CHECK(rows_sum_to_one(r.weights));
        CHECK(equal(r.weights, tril(r.weights)));
        CHECK_FALSE(r.weights.requires_grad());
      }
    }
    return values;
  };
  const auto plain = train(false), recorded = train(true);
  REQUIRE(plain.size() == recorded.size());
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(equal(plain[i], recorded[i]));
}

TEST_CASE("encoder and decoder: self- and cross-attention under their dotted names") {
  const auto o = nn::TransformerOptions()
                     .d_model(8)
                     .num_heads(2)
                     .hidden(16)
                     .dropout(0)
                     .source_vocab(7)
                     .target_vocab(6)
                     .max_length(8)
                     .num_encoder_layers(2)
                     .num_decoder_layers(2);
  nn::Transformer model(o);
  const nn::AttentionRecorder recorder(model);
  const Tensor source = tensor({{1, 2, 3, 4, 5}}), target = tensor({{1, 2, 3}});
  model(source, target);
  AttentionRecording recording = recorder.recording();
  REQUIRE(recording.records().size() == 6);
  std::size_t cross = 0;
  for (const AttentionRecord& r : recording.records()) {
    CAPTURE(r.layer);
    const bool is_cross = r.layer.find("cross_attn") != std::string::npos;
    cross += is_cross;
    CHECK(r.kind == (is_cross ? AttentionKind::cross : AttentionKind::self));
    const std::int64_t queries = r.layer.find("encoder") == 0 ? 5 : 3;
    CHECK(r.weights.shape() == Shape{2, queries, is_cross || queries == 5 ? 5 : 3});
    CHECK_THAT(r.layer, Contains("coder.") && Contains("attn"));
  }
  CHECK(cross == 2);
  recording.name_tokens("encoder", {"a", "b", "c", "d", "e"});
}

TEST_CASE("with a cache, each call has its keys, and its weights are those of the whole sequence") {
  manual_seed(5);
  for (const std::int64_t window : {0, 3}) {
    CAPTURE(window);
    nn::GPTOptions options = small_gpt();
    options.window(window);
    nn::GPT model(options);
    model.eval();
    const Tensor ids = tensor({{1, 2, 3, 4, 5, 6}});
    const auto o = nn::AttentionRecorderOptions().calls(10);
    AttentionRecording whole, pieces;
    {
      const nn::AttentionRecorder recorder(model, o);
      model(ids);
      whole = recorder.recording();
    }
    {
      const nn::AttentionRecorder recorder(model, o);
      nn::KVCache cache = model.make_cache(1);
      model(ids[{range(), range(0, 4)}], cache);
      model(ids[{range(), range(4, 5)}], cache);
      model(ids[{range(), range(5, 6)}], cache);
      pieces = recorder.recording();
    }
    REQUIRE(pieces.records().size() == 6);
    for (const AttentionRecord& r : pieces.records()) {
      CAPTURE(r.layer, r.call);
      const AttentionRecord& all = whole.records()[r.layer == "h.0.attn" ? 0 : 1];
      const std::int64_t keys = r.weights.size(2), first = keys - r.weights.size(1);
      REQUIRE(keys == 4 + r.call);
      CHECK(max_difference(r.weights, all.weights[{range(), range(first, keys), range(0, keys)}]) < 1e-5);
    }
  }
}

TEST_CASE("heads of their own, and a layer without projections") {
  struct SingleHead final : nn::SequenceLayer {
    Tensor forward(const Tensor& x, const nn::AttentionContext& context) const override {
      return context.attend(q(x), x, x);
    }
    FIT_FIELDS_ONLY(q)
    nn::Linear q{4, 4};
  };
  struct Heads final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return cat({heads[0](x), heads[1](x)}, -1); }
    FIT_FIELDS_ONLY(heads)
    nn::ModuleList<SingleHead> heads{SingleHead(), SingleHead()};
  };
  const Heads several;
  const nn::AttentionRecorder recorder(several);
  several(randn({5, 4}));
  CHECK(layers_of(recorder.recording()) == std::set<std::string>{"heads.0", "heads.1"});
  const SingleHead single;
  const nn::AttentionRecorder another(single);
  single(randn({2, 5, 4}));
  CHECK(layers_of(another.recording()) == std::set<std::string>{"SingleHead"});
}

TEST_CASE("a layer of one's own is recorded where it computes attention itself, and cross-attention from a cache") {
  struct Own final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return scaled_dot_product_attention(q(x), x, x); }
    FIT_FIELDS_ONLY(q)
    nn::Linear q{4, 4};
  };
  const nn::Sequential model(nn::Linear(4, 4), Own());
  const nn::AttentionRecorder recorder(model);
  model(randn({5, 4}));
  CHECK(layers_of(recorder.recording()) == std::set<std::string>{"1"});

  const auto o = nn::TransformerLayerOptions().d_model(8).num_heads(2).hidden(16).dropout(0);
  nn::TransformerDecoderLayer decoder(o);
  decoder.eval();
  const nn::AttentionRecorder of_decoder(decoder);
  nn::KVCache cache({{2, 4}}, 1, 6);
  nn::AttentionContext next = nn::decoder_context(randn({1, 5, 8}));
  next.cache = cache.past(0);
  decoder(randn({1, 1, 8}), next);
  const AttentionRecording recording = of_decoder.recording();
  REQUIRE(recording.records().size() == 2);
  CHECK(recording.records()[0].layer == "self_attn");
  CHECK(recording.records()[1].layer == "cross_attn");
  CHECK(recording.records()[1].kind == AttentionKind::cross);
}

TEST_CASE("every k-th step is recorded, and as many calls in it as are asked for") {
  nn::SelfAttention layer(8, 2);
  nn::AttentionRecorder recorder(layer, nn::AttentionRecorderOptions().every(3).calls(2));
  const Tensor x = randn({1, 4, 8});
  for (int step = 0; step < 8; ++step) {
    recorder.step(step);
    for (int call = 0; call < 3; ++call) layer(x);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> seen;
  for (const AttentionRecord& r : recorder.recording().records()) seen.emplace_back(r.step, r.call);
  CHECK(seen == std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {0, 1}, {3, 0}, {3, 1}, {6, 0}, {6, 1}});
}

TEST_CASE("what checkpoint() computes again is recorded once") {
  nn::GPT plain(small_gpt()), again(small_gpt().checkpoint_blocks());
  again.load_state_dict(plain.state_dict());
  const Tensor first = randint(0, 11, {1, 5}), second = randint(0, 11, {1, 7});
  const auto recorded = [&](const nn::GPT& gpt) {
    nn::AttentionRecorder recorder(gpt, nn::AttentionRecorderOptions().calls(2));
    for (const Tensor& part : {first, second}) sum(square(gpt(part))).backward();
    return recorder.recording().records();
  };
  const auto expected = recorded(plain), got = recorded(again);
  REQUIRE(expected.size() == 4);
  REQUIRE(got.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(got[i].layer == expected[i].layer);
    CHECK(got[i].call == expected[i].call);
    CHECK(same_bits(got[i].weights, expected[i].weights));
  }
}

TEST_CASE("when memory runs out, every other step goes, and the whole training stays in view") {
  nn::SelfAttention layer(8, 2);
  auto o = nn::AttentionRecorderOptions().max_bytes(5 * 2 * 4 * 4 * 4);  // five records
  nn::AttentionRecorder recorder(layer, o);
  const Tensor x = randn({1, 4, 8});
  for (int step = 0; step <= 40; ++step) {
    recorder.step(step);
    layer(x);
    CHECK(recorder.recording().bytes() <= o.max_bytes());
  }
  std::vector<std::int64_t> steps;
  for (const AttentionRecord& r : recorder.recording().records()) steps.push_back(r.step);
  CHECK(recorder.every() == 16);
  CHECK(steps == std::vector<std::int64_t>{0, 16, 32});
  // What does not fit at all is left out, and disturbs nobody.
  o.max_bytes(10);
  const nn::AttentionRecorder tiny(layer, o);
  layer(x);
  CHECK(tiny.recording().records().empty());
}

TEST_CASE("calls from several threads are recorded, each under its own layer") {
  nn::GPT model(small_gpt());
  model.eval();
  const nn::AttentionRecorder recorder(model, nn::AttentionRecorderOptions().calls(100));
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&model, t] {
      for (int i = 0; i < 10; ++i) model(full({1, 3 + t}, t, int64));
    });
  for (std::thread& t : threads) t.join();
  std::map<std::pair<std::string, std::int64_t>, int> count;
  for (const AttentionRecord& r : recorder.recording().records()) ++count[{r.layer, r.weights.size(1)}];
  CHECK(count.size() == 8);
  for (const auto& [what, n] : count) CHECK(n == 10);
}

TEST_CASE("a recorder sees its own model alone, while it lives, and two see the same") {
  nn::SelfAttention one(8, 2), other(8, 2);
  const Tensor x = randn({2, 4, 8});
  nn::AttentionRecorderOptions o;
  const nn::AttentionRecorder recorder(one, o);
  {
    o.element(1);
    const nn::AttentionRecorder second(one, o);
    const Tensor weights = one(x, nn::return_attention).weights;
    CHECK(equal(second.recording().records()[0].weights, weights[1]));
    CHECK(equal(recorder.recording().records()[0].weights, weights[0]));
    one(x[{range(0, 1)}]);  // no element 1
    CHECK(second.recording().records().size() == 1);
  }
  other(x);
  CHECK(recorder.recording().records().size() == 1);
}

TEST_CASE("a recorder refuses options that make no sense") {
  const nn::SelfAttention layer(8, 2);
  const auto refuses = [&](const nn::AttentionRecorderOptions& o, const char* why) {
    CHECK_THROWS_WITH(nn::AttentionRecorder(layer, o), Contains("[AttentionRecorder]") && Contains(why));
  };
  refuses(nn::AttentionRecorderOptions().every(0), "every is 0");
  refuses(nn::AttentionRecorderOptions().calls(0), "calls is 0");
  refuses(nn::AttentionRecorderOptions().max_bytes(0), "max_bytes is 0");
  refuses(nn::AttentionRecorderOptions().element(-1), "element is -1");
  nn::AttentionRecorder recorder(layer);
  CHECK_THROWS_WITH(recorder.step(-1), Contains("step is -1"));
}

}  // namespace fit::test::attention_recorder_test
