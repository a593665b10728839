// Models whose blocks, attention, feed-forward layers and norms are handed in.
#include <memory>

#include "fit/nn/attention/attention_recorder.hpp"
#include "fit/nn/lens/lens.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace fit::test::custom_parts_test {
namespace {

// Attention with separate projections, and keys that are normalised.
struct Attention final : nn::SequenceLayer {
  Tensor forward(const Tensor& x, const nn::AttentionContext& context) const override {
    return out(context.attend(heads_last(q(x), 2), heads_last(tanh(k(x))), heads_last(v(x))));
  }
  nn::KVCache::LayerShape cache_shape() const override { return {1, 4}; }
  FIT_FIELDS(q, k, v, out)

  nn::Linear q{8, 8}, k{8, 4}, v{8, 4}, out{8, 8};
};

struct Gated final : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return out(sigmoid(gate(x)) * in(x)); }
  FIT_FIELDS(in, gate, out)

  nn::Linear in{8, 12}, gate{8, 12}, out{12, 8};
};

// Attention and feed-forward side by side.
struct ParallelBlock final : nn::SequenceLayer {
  Tensor forward(const Tensor& x, const nn::AttentionContext& context) const override {
    const Tensor y = norm(x);
    return x + attn(y, context) + mlp(y);
  }
  nn::KVCache::LayerShape cache_shape() const override { return attn.cache_shape(); }
  FIT_FIELDS(norm, attn, mlp)

  nn::RMSNorm norm{8};
  Attention attn;
  Gated mlp;
};

nn::GPTOptions small_gpt() {
  return nn::GPTOptions().vocab_size(9).context_length(8).num_layers(2).num_heads(2).d_model(8);
}

nn::GPT handed_in(nn::GPTOptions o = small_gpt()) {
  nn::ModuleList<nn::SequenceLayer> blocks;
  blocks.add(ParallelBlock());
  blocks.add(nn::GPTBlock(nn::RMSNorm(8), Attention(), nn::LayerNorm(8), std::make_shared<Gated>()));
  return nn::GPT(o.num_layers(0).num_heads(0), std::move(blocks));
}

}  // namespace

TEST_CASE("a GPT of blocks that are handed in decodes, records, saves and clones like nn::GPT", "[gpt]") {
  manual_seed(3);
  nn::GPT gpt = handed_in();
  gpt.to(float64);
  const Tensor ids = randint(0, 9, {2, 8}), all = gpt(ids);
  CHECK(gpt.options().num_layers() == 2);

  SECTION("token by token, and generation") {
    nn::KVCache cache = gpt.make_cache(2);
    CHECK(cache[0].keys.shape() == Shape{2, 1, 8, 4});
    std::vector<Tensor> logits;
    for (std::int64_t t = 0; t < 8; ++t) logits.push_back(gpt(slice(ids, 1, t, t + 1), cache));
    CHECK(max_difference(cat(logits, 1), all) < 1e-12);
    nn::Tokens text = {3, 1};
    for (int i = 0; i < 4; ++i) {
      const Tensor seen = tensor(text, {1, static_cast<std::int64_t>(text.size())});
      text.push_back(argmax(gpt(seen)[{0, -1}], -1).item<std::int64_t>());
    }
    const auto greedy = nn::GenerateOptions().max_new_tokens(4).temperature(0);
    CHECK(nn::generate(gpt, {{3, 1}}, greedy)[0] == nn::Tokens(text.begin() + 2, text.end()));
    nn::KVCache other({{1, 4}, {2, 4}}, 2, 8, float64);
    CHECK_THROWS_WITH(gpt(ids, other), Catch::Contains("the cache is for 2 heads of 4 features") &&
                                           Catch::Contains("the model has 1 of 4"));
  }
  SECTION("a recorder") {
    const nn::AttentionRecorder recorder(gpt);
    gpt(ids);
    const AttentionRecording recording = recorder.recording();
    REQUIRE(recording.records().size() == 2);
    CHECK(recording.records()[0].layer == "h.0.attn");
    CHECK(recording.records()[1].layer == "h.1.attn");
  }
  SECTION("a lens") {
    const nn::Lens lens(gpt);
    const nn::LensRun run = lens.run(ids, {"h.*.attn.weights", "h.0.out"});
    CHECK(same_bits(run.output, all));
    CHECK(run["h.1.attn.weights"].shape() == Shape{2, 2, 8, 8});
    CHECK(run["h.0.out"].shape() == Shape{2, 8, 8});
    const auto without = nn::clone(gpt);  // the columns of head 1 are 0
    Tensor columns = without->parameter("h.1.attn.out.weight");
    const NoGrad no_grad;
    columns.mul_((arange(8) < 4).to(float64));
    CHECK(max_difference(lens.with("h.1.attn.z", nn::head(1), nn::zero()).run(ids, {}).output, (*without)(ids)) <
          1e-12);
    CHECK(max_difference((*without)(ids), all) > 1e-3);
  }
  SECTION("names, files and clones") {
    CHECK(gpt.parameter("h.0.norm.weight").shape() == Shape{8});
    CHECK(gpt.parameter("h.1.mlp.gate.weight").shape() == Shape{12, 8});
    const Directory d;
    nn::save_weights(d.file("own.safetensors"), gpt);
    manual_seed(4);
    nn::GPT other = handed_in();
    other.to(float64);
    CHECK_FALSE(same_bits(other(ids), all));
    nn::load_weights(other, d.file("own.safetensors"));
    CHECK(same_bits(other(ids), all));
    const auto copy = nn::clone(gpt);
    CHECK(same_bits((*copy)(ids), all));
    CHECK(copy->parameter("h.1.attn.q.weight").raw() != gpt.parameter("h.1.attn.q.weight").raw());
  }
  SECTION("an error names the layer") {
    gpt.layer<nn::Linear>("h.1.attn.v") = nn::Linear(3, 4);
    try {
      gpt(ids);
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.where() == "h.1.attn.v");
    }
  }
}

TEST_CASE("blocks that are handed in are computed again with the same bits", "[gpt]") {
  std::vector<Tensor> gradients[2];
  const Tensor ids = randint(0, 9, {2, 8});
  for (const bool again : {false, true}) {
    manual_seed(5);
    nn::GPT gpt = handed_in(small_gpt().checkpoint_blocks(again));
    gpt.loss(ids, ids).backward();
    for (const Tensor& p : gpt.parameters()) gradients[again].push_back(p.grad());
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i) CHECK(same_bits(gradients[0][i], gradients[1][i]));
}

TEST_CASE("GPT-2's parts, handed in, are GPT-2", "[gpt]") {
  const nn::GPTOptions o = small_gpt();
  nn::GPT gpt(o);
  nn::ModuleList<nn::SequenceLayer> blocks;
  for (int i = 0; i < 2; ++i)
    blocks.add(nn::GPTBlock(nn::LayerNorm(8), nn::GPTAttention(o), nn::LayerNorm(8),
                            nn::FeedForward(8, 32, nn::FeedForwardOptions().activation(nn::Activation::gelu_tanh))));
  nn::GPT made(o, std::move(blocks));
  made.load_state_dict(gpt.state_dict());
  const Tensor ids = randint(0, 9, {2, 8});
  CHECK(same_bits(made(ids), gpt(ids)));
  gpt.replace("h.0.attn", std::make_shared<Attention>());
  CHECK_FALSE(same_bits(made(ids), gpt(ids)));
  CHECK_THROWS_WITH(gpt.replace("h.0.attn", std::make_shared<Gated>()),
                    "[replace] 'h.0.attn' of GPT is a Attention: a Gated does not fit there");
}

namespace {

// Attention of one head, with the keys as values.
struct KeyAttention final : nn::AttentionLayer {
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor&,
                 const nn::AttentionContext& context) const override {
    const Tensor k = project(key);
    return context.attend(heads_last(query, 1), heads_last(k), heads_last(k));
  }
  nn::KVCache::LayerShape cache_shape() const override { return {1, 8}; }
  FIT_FIELDS(project)

  nn::Linear project{8, 8};
};

// An encoder layer that has no attention.
struct Pointwise final : nn::SequenceLayer {
  Tensor forward(const Tensor& x, const nn::AttentionContext&) const override { return x + mlp(x); }
  FIT_FIELDS(mlp)

  Gated mlp;
};

}  // namespace

TEST_CASE("an encoder and a decoder of layers that are handed in", "[transformer]") {
  manual_seed(6);
  nn::ModuleList<nn::SequenceLayer> encoder_layers;
  encoder_layers.add(nn::TransformerEncoderLayer(KeyAttention(), nn::RMSNorm(8), Gated(), nn::RMSNorm(8),
                                                 nn::TransformerLayerOptions().dropout(0).norm_first()));
  encoder_layers.add(Pointwise());
  nn::TransformerEncoder encoder(std::move(encoder_layers), std::make_shared<nn::RMSNorm>(8));
  nn::ModuleList<nn::SequenceLayer> decoder_layers;
  decoder_layers.add(nn::TransformerDecoderLayer(KeyAttention(), nn::LayerNorm(8), KeyAttention(), nn::LayerNorm(8),
                                                 Gated(), nn::LayerNorm(8), nn::TransformerLayerOptions().dropout(0)));
  decoder_layers.add(nn::TransformerDecoderLayer(nn::MultiHeadAttention(8, 2, 0.0), nn::LayerNorm(8), KeyAttention(),
                                                 nn::LayerNorm(8), nn::FeedForward(8, 16), nn::LayerNorm(8),
                                                 nn::TransformerLayerOptions().dropout(0)));
  nn::TransformerDecoder decoder(std::move(decoder_layers));
  encoder.to(float64);
  decoder.to(float64);

  const Tensor source = randn({2, 5, 8}, float64), target = randn({2, 4, 8}, float64);
  const Tensor mask = create_padding_mask(tensor({{1, 2, 3, 0, 0}, {1, 2, 3, 4, 5}}));
  const Tensor memory = encoder(source, nn::without_padding(mask, source));
  CHECK(max_difference(memory[{1}], encoder(source, mask)[{1}]) < 1e-12);
  CHECK(sum(abs(memory[{0, range(3, 5)}])).item() == 0);
  nn::TransformerWeights of_encoder;
  nn::AttentionContext context(mask);
  context.weights = &of_encoder.self;
  CHECK(same_bits(encoder(source, context), encoder(source, mask)));
  CHECK(of_encoder.self[0].shape() == Shape{2, 1, 5, 5});
  CHECK_FALSE(of_encoder.self[1].defined());  // it attends to nothing

  const Tensor all = decoder(target, memory, nn::DecoderTerms().memory(mask));
  nn::DecoderCache cache = decoder.make_cache(memory, mask, 4);
  CHECK(cache.self[1].keys.shape() == Shape{2, 2, 4, 4});
  std::vector<Tensor> steps;
  for (std::int64_t t = 0; t < 4; ++t) steps.push_back(decoder(slice(target, 1, t, t + 1), cache));
  CHECK(max_difference(cat(steps, 1), all) < 1e-12);

  const auto copy = nn::clone(decoder);
  CHECK(same_bits((*copy)(target, memory), decoder(target, memory)));
  CHECK(decoder.parameter("layers.0.cross_attn.project.weight").shape() == Shape{8, 8});
  CHECK_THROWS_WITH(nn::torch_names(encoder), Catch::Contains("the feed-forward layer is a Gated"));
}

}  // namespace fit::test::custom_parts_test
