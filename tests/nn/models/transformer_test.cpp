#include "fit/nn/models/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fit/base/memory.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/nn/layers/position.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/oracles/golden.hpp"
#include "support/tensors.hpp"

namespace fit::test::transformer_test {
namespace {

nn::TransformerOptions small(bool norm_first = false) {
  return nn::TransformerOptions()
      .d_model(12)
      .num_heads(4)
      .hidden(20)
      .dropout(0)
      .norm_first(norm_first)
      .num_kv_heads(norm_first ? 2 : 0)
      .source_vocab(7)
      .target_vocab(6)
      .max_length(8)
      .num_encoder_layers(2)
      .num_decoder_layers(2);
}

// The state of PyTorch's layer. With the prefix "d_": its gradients.
nn::StateDict state_of(const Golden& golden, const std::string& prefix = "") {
  nn::StateDict state;
  for (const char* part : {"linear1.", "linear2.", "norm1.", "norm2.", "norm3.", "self_attn.in_proj_",
                           "self_attn.out_proj.", "multihead_attn.in_proj_", "multihead_attn.out_proj."})
    for (const char* kind : {"weight", "bias"}) {
      const std::string name = std::string(part) + kind;
      std::string stored = prefix + name;
      std::replace(stored.begin(), stored.end(), '.', '_');
      if (golden.has(stored)) state.emplace_back(name, golden(stored));
    }
  return state;
}

template <class L, class Call>
void check_layer(const std::string& name, bool decoder, const Call& call) {
  const Golden golden("transformer/" + name);
  INFO(name);
  const auto o = nn::TransformerLayerOptions()
                     .d_model(4)
                     .num_heads(2)
                     .hidden(6)
                     .dropout(0)
                     .norm_first(name.find("pre") != std::string::npos)
                     .activation(name.find("gelu") != std::string::npos ? nn::Activation::gelu : nn::Activation::relu);
  for (const DType dtype : {float64, float32}) {
    L layer(o);
    layer.to(dtype);
    nn::load_weights(layer, state_of(golden), nn::torch_names(layer));
    const Tensor x = leaf_of(golden, "x", dtype), memory = decoder ? leaf_of(golden, "memory", dtype) : Tensor();
    const Tensor y = call(layer, x, memory);
    check_close("y", y, golden("y"), dtype);
    y.backward(golden("d_y").to(dtype));
    check_close("gradient of x", x.grad(), golden("d_x"), dtype);
    if (decoder) check_close("gradient of memory", memory.grad(), golden("d_memory"), dtype);
    const nn::StateDict gradients = nn::to_ours(state_of(golden, "d_"), nn::torch_names(layer));
    for (const auto& [parameter, p] : layer.named_parameters())
      check_close("gradient of " + parameter, p.grad(), at(gradients, parameter), dtype);
  }
}

nn::AttentionContext with(const AttentionTerms& terms, nn::TransformerWeights* weights) {
  nn::AttentionContext c(terms);
  c.weights = &weights->self;
  return c;
}

}  // namespace

TEST_CASE("transformer layers agree with PyTorch's", "[golden][transformer]") {
  const Tensor padding = tensor({{{true, true, true}}, {{true, true, false}}});
  for (const std::string form : {"post_relu", "pre_relu", "post_gelu", "pre_gelu"}) {
    check_layer<nn::TransformerEncoderLayer>(
        "encoder_" + form, false, [&](const auto& layer, const Tensor& x, auto&) { return layer(x, padding); });
    check_layer<nn::TransformerDecoderLayer>("decoder_" + form, true,
                                             [&](const auto& layer, const Tensor& x, const Tensor& memory) {
                                               return layer(x, memory, nn::DecoderTerms().memory(padding));
                                             });
  }
}

TEST_CASE("the norm at the end of a stack is an option, and so is the norms' eps", "[transformer]") {
  nn::TransformerOptions o = small();
  CHECK_FALSE(nn::TransformerEncoder(o, 1).norm);
  o.final_norm(true);
  CHECK(nn::TransformerEncoder(o, 1).norm);
  CHECK(nn::TransformerDecoder(o, 1).norm);
  o.norm_first(true).final_norm(false);
  CHECK_FALSE(nn::TransformerDecoder(o, 1).norm);
  o.eps(0.5);
  const nn::TransformerDecoderLayer layer(o);
  for (const auto& norm : {layer.norm1, layer.norm2, layer.norm3}) CHECK(norm->describe() == "12, eps=0.5, bias=true");
}

TEST_CASE("BERT says what it can't read", "[transformer]") {
  nn::BERTOptions o;
  CHECK_THROWS_WITH(nn::BERT(o), Catch::Contains("vocab_size is 0"));
  o.d_model(8).num_heads(2).vocab_size(7).max_length(3).num_layers(1).dropout(0);
  const nn::BERT bert(o);
  CHECK_THROWS_WITH(bert(zeros({1, 4}, int64)), Catch::Contains("T at most max_length, 3"));
  CHECK_THROWS_WITH(bert.forward(zeros({1, 3}, int64), {}, zeros({1, 2}, int64)),
                    Catch::Contains("segments has shape [1, 2], ids [1, 3]"));
  CHECK(std(bert.word.weight.detach()).item() < 0.05);
}

TEST_CASE("asking for the weights of each layer changes nothing", "[transformer]") {
  manual_seed(1);
  for (const bool first : {false, true}) {
    const nn::Transformer model(small(first));
    const Tensor source = tensor({{1, 2, 3, 0}, {4, 5, 6, 1}}), target = tensor({{1, 2, 3}, {3, 4, 5}});
    const Tensor mask = create_padding_mask(source);
    nn::TransformerWeights weights, encoder_weights;
    CHECK(same_bits(model.forward(source, target, mask, &weights), model(source, target, mask)));
    REQUIRE(weights.self.size() == 2);
    REQUIRE(weights.cross.size() == 2);
    CHECK(weights.self[1].shape() == Shape{2, 4, 3, 3});
    CHECK(weights.cross[0].shape() == Shape{2, 4, 3, 4});
    CHECK(weights.cross[1][{0, 0, 1, 3}].item() == 0);  // padding
    CHECK(weights.self[0][{1, 2, 0, 1}].item() == 0);   // causal
    CHECK(max_difference(sum(weights.cross[1], -1), ones({2, 4, 3})) < 1e-5);
    const Tensor x = randn({2, 4, 12});
    CHECK(same_bits(model.encoder(x, with(mask, &encoder_weights)), model.encoder(x, mask)));
    CHECK(encoder_weights.self.size() == 2);
  }
}

TEST_CASE("a Transformer starts as documented, and draws each of its matrices once", "[transformer]") {
  nn::TransformerOptions o = small();
  o.d_model(128).hidden(512);
  for (const bool tied : {true, false}) {
    o.tie_weights(tied);
    // an encoder layer has 4 + 2 matrices, a decoder layer 8 + 2
    const std::uint64_t matrices = 2 + 2 * 6 + 2 * 10 + (tied ? 0 : 1);
    empty_cache();
    const MemoryStats before = memory_stats();
    const std::uint64_t calls = default_generator().calls();
    nn::Transformer model(o);
    CHECK(default_generator().calls() - calls == matrices);
    const MemoryStats after = memory_stats();
    CHECK(after.cached_bytes - before.cached_bytes < 64 * 1024);
    const auto copy = nn::clone(model);
    CHECK(default_generator().calls() - calls == matrices);
    CHECK(same_bits(copy->decoder.layer<nn::Linear>("layers.1.mlp.fc").weight.detach(),
                    model.decoder.layer<nn::Linear>("layers.1.mlp.fc").weight.detach()));

    CHECK(std(model.source_embedding.weight.detach()).item() == Approx(1 / std::sqrt(128.)).epsilon(0.1));
    nn::SequenceLayer& layer = model.decoder.layers[0];
    const auto value = [&](const char* name) { return layer.parameter(name).detach(); };
    CHECK(std(value("mlp.fc.weight")).item() == Approx(std::sqrt(2. / (128 + 512))).epsilon(0.05));
    CHECK(std(value("cross_attn.w_k.weight")).item() == Approx(std::sqrt(2. / (128 + 128))).epsilon(0.05));
    CHECK(equal(value("mlp.fc.bias"), zeros({512})));
    CHECK(equal(value("cross_attn.w_o.bias"), zeros({128})));
    CHECK(equal(value("norm3.weight"), ones({128})));
    if (!tied) CHECK(std(model.head.weight.detach()).item() == Approx(std::sqrt(2. / (128 + 6))).epsilon(0.1));
  }
}

TEST_CASE("an encoder passes mask, bias and causality on to its layers", "[transformer]") {
  manual_seed(1);
  for (const bool first : {false, true}) {
    const nn::TransformerEncoder encoder(small(first), 2);
    const Tensor x = randn({2, 4, 12}), bias = randn({2, 4, 4, 4});
    const Tensor mask = tensor({{{true, true, true, true}}, {{true, true, true, false}}});
    const auto all = AttentionTerms(mask).bias(bias).causal();
    Tensor by_layer = x;
    for (const nn::SequenceLayer& layer : encoder.layers) by_layer = layer.forward(by_layer, all);
    if (encoder.norm) by_layer = (*encoder.norm)(by_layer);
    const Tensor y = encoder.forward(x, all);
    CHECK(same_bits(y, by_layer));
    AttentionTerms no_mask = all, no_bias = all, not_causal = all, causal;
    no_mask.mask({}), no_bias.bias({});
    not_causal.causal(false);
    causal.causal(true);
    for (const AttentionTerms& less : {no_mask, no_bias, not_causal})  // each of the three counts
      CHECK(max_difference(encoder.forward(x, less), y) > 1e-4);
    nn::TransformerWeights weights;
    CHECK(same_bits(encoder(x, with(all, &weights)), y));
    CHECK(sum(triu(weights.self[1].detach(), 1)).item() == 0);
    Tensor changed = x.clone();
    changed[{range(), 3}] = randn({12});
    const Tensor z = encoder.forward(changed, causal);
    CHECK(same_bits(z.detach()[{range(), range(0, 3)}], encoder.forward(x, causal).detach()[{range(), range(0, 3)}]));
  }
}

TEST_CASE("a feed-forward layer is the formula of its activation", "[transformer]") {
  manual_seed(2);
  const Tensor x = randn({2, 3, 4}, float64);
  for (const nn::Activation a :
       {nn::Activation::relu, nn::Activation::gelu, nn::Activation::gelu_tanh, nn::Activation::swiglu,
        nn::Activation::geglu, nn::Activation::squared_relu, nn::Activation::solu}) {
    INFO(name_of(a));
    nn::FeedForward layer(4, 9, nn::FeedForwardOptions().activation(a));
    layer.to(float64);
    const Tensor h = linear(x, layer.fc.weight, layer.fc.bias);
    Tensor between;
    if (a == nn::Activation::relu) between = maximum(h, zeros_like(h));
    if (a == nn::Activation::gelu) between = h * 0.5 * (1 + erf(h / std::sqrt(2.)));
    if (a == nn::Activation::gelu_tanh)
      between = h * 0.5 * (1 + tanh(std::sqrt(2 / M_PI) * (h + 0.044715 * pow(h, 3))));
    if (a == nn::Activation::swiglu) {
      const Tensor g = linear(x, layer.gate->weight, layer.gate->bias);
      between = h * g / (1 + exp(-g));
    }
    if (a == nn::Activation::geglu) {
      const Tensor g = linear(x, layer.gate->weight, layer.gate->bias);
      between = h * g * 0.5 * (1 + erf(g / std::sqrt(2.)));
    }
    if (a == nn::Activation::squared_relu) between = pow(maximum(h, zeros_like(h)), 2);
    if (a == nn::Activation::solu) {
      const Tensor e = exp(h), y = h * e / sum(e, -1, keepdims), centred = y - mean(y, -1, keepdims);
      between = centred / sqrt(mean(centred * centred, -1, keepdims) + 1e-5);
    }
    CHECK(layer.gate.has_value() == (a == nn::Activation::swiglu || a == nn::Activation::geglu));
    CHECK(max_difference(layer(x), linear(between, layer.proj.weight, layer.proj.bias)) < 1e-13);
  }
}

TEST_CASE("a Transformer is embeddings with positions, two stacks and a head", "[transformer]") {
  for (const bool first : {false, true}) {
    manual_seed(4);
    nn::Transformer model(small(first));
    model.to(float64);
    const Tensor source = tensor({{1, 2, 3, 0}, {4, 5, 6, 1}}), target = tensor({{1, 2, 3}, {3, 4, 5}});
    const Tensor mask = create_padding_mask(source);
    const auto embedded = [&](const nn::Embedding& table, const Tensor& ids) {
      const Tensor places = nn::sinusoidal_positions(ids.size(1), 12).to(float64);
      return index_select(table.weight, 0, ids.flatten()).reshape({2, ids.size(1), 12}) * std::sqrt(12.) + places;
    };
    Tensor memory = embedded(model.source_embedding, source);
    for (const nn::SequenceLayer& layer : model.encoder.layers) memory = layer(memory, mask);
    if (first) memory = (*model.encoder.norm)(memory);
    CHECK((model.encoder.norm != nullptr) == first);
    const auto masks = nn::DecoderTerms().memory(mask);
    Tensor y = embedded(model.target_embedding, target);
    for (const nn::SequenceLayer& layer : model.decoder.layers) y = layer(y, nn::decoder_context(memory, masks));
    if (first) y = (*model.decoder.norm)(y);
    CHECK(max_difference(model(source, target, mask), matmul(y, transpose(model.target_embedding.weight))) < 1e-12);
  }
}

TEST_CASE("a Transformer decodes without dropout only", "[transformer]") {
  nn::Transformer model(nn::TransformerOptions().source_vocab(9).target_vocab(9).max_length(6).d_model(8).num_heads(2));
  const Tensor source = tensor({{1, 2, 3}});
  CHECK_THROWS_WITH(model.make_cache(source),
                    "[Transformer] the model has dropout and is in training: call its eval() first");
  model.eval();
  nn::DecoderCache cache = model.make_cache(source);
  model.train();
  CHECK_THROWS_WITH(model.decode(tensor({{1}}), cache), Catch::Contains("call its eval() first"));
  model.eval();
  CHECK(model.decode(tensor({{1}}), cache).shape() == Shape{1, 1, 9});
}

TEST_CASE("a decoder layer honours all of its masks", "[transformer]") {
  manual_seed(1);
  const nn::TransformerDecoderLayer layer(small());
  Tensor x = randn({1, 4, 12}), memory = randn({1, 3, 12});
  auto masks =
      nn::DecoderTerms().causal(false).self(tensor({{true, false, true, true}})).memory(tensor({{true, true, false}}));
  const auto first = [&] { return layer(x, memory, masks)[{0, 0}].detach(); };
  const Tensor before = first();
  x[{0, 1}] = randn({12});
  memory[{0, 2}] = randn({12});
  CHECK(same_bits(first(), before));
  x[{0, 3}] = randn({12});
  CHECK(max_difference(first(), before) > 1e-4);
  const Tensor moved = first();
  memory[{0, 1}] = randn({12});
  CHECK(max_difference(first(), moved) > 1e-4);
  masks.causal(true);
  const Tensor causal = first();
  x[{0, 3}] = randn({12});
  CHECK(same_bits(first(), causal));
}

TEST_CASE("decoding with a cache gives what the whole gives", "[transformer][cache]") {
  for (const bool first : {false, true}) {
    manual_seed(3);
    nn::Transformer model(small(first));
    model.to(float64);
    const Tensor source = tensor({{1, 2, 3, 0}, {4, 5, 6, 1}}), target = tensor({{1, 2, 3, 4, 5}, {3, 4, 5, 0, 1}});
    const Tensor mask = create_padding_mask(source), whole = model(source, target, mask);
    nn::DecoderCache cache = model.make_cache(source, mask);
    const Tensor a = model.decode(slice(target, 1, 0, 2), cache);
    cache.select({1, 0});
    const Tensor swapped = flip(target, 0);
    const Tensor b = model.decode(slice(swapped, 1, 2, 3), cache), c = model.decode(slice(swapped, 1, 3, 5), cache);
    CHECK(max_difference(cat({a, flip(cat({b, c}, 1), 0)}, 1), whole) < 1e-12);
    CHECK_FALSE(b.requires_grad());
    nn::DecoderCache early = model.make_cache(source, mask);  // rows are chosen before the memory is projected
    early.select({1, 0});
    CHECK(max_difference(flip(model.decode(flip(target, 0), early), 0), whole) < 1e-12);
    CHECK_THROWS_WITH(model.decode(zeros({2, 4}, int64), cache), Catch::Contains("at most max_length, 8"));
  }
}

TEST_CASE("attention to a memory is the same with a cache, whatever its options", "[transformer][cache]") {
  const auto options = [] { return nn::MultiHeadAttentionOptions().dropout(0); };
  for (const auto& cross : {options().add_bias_kv(true), options().add_zero_attn(true), options().causal(true),
                            options().causal(true).add_bias_kv(true).add_zero_attn(true)}) {
    manual_seed(3);
    nn::ModuleList<nn::SequenceLayer> layers;
    layers.add(nn::TransformerDecoderLayer(
        nn::MultiHeadAttention(12, 4, options()), nn::LayerNorm(12), nn::MultiHeadAttention(12, 4, cross),
        nn::LayerNorm(12), nn::FeedForward(12, 20), nn::LayerNorm(12), nn::TransformerLayerOptions().dropout(0)));
    nn::TransformerDecoder decoder(std::move(layers));
    decoder.to(float64);
    const Tensor x = randn({2, 4, 12}, float64), memory = randn({2, 5, 12}, float64);
    const Tensor mask = create_padding_mask(tensor({{1, 2, 3, 4, 0}, {1, 2, 3, 4, 5}}));
    nn::DecoderCache cache = decoder.make_cache(memory, mask, 4);
    for (const auto& [begin, end] : {std::pair(0, 2), std::pair(2, 3), std::pair(3, 4)}) {
      // Causality is aligned with the last query: so the whole ends where the part ends.
      const Tensor whole = decoder(slice(x, 1, 0, end), memory, nn::DecoderTerms().memory(mask));
      const Tensor part = decoder(slice(x, 1, begin, end), cache);
      CHECK(max_difference(part, slice(whole, 1, begin, end)) < 1e-12);
    }
  }
}

TEST_CASE("a Transformer's errors", "[transformer]") {
  using Catch::Contains;
  nn::TransformerOptions o = small();
  o.source_vocab(0);
  CHECK_THROWS_WITH(nn::Transformer(o), Contains("[Transformer] source_vocab is 0: it must be positive"));
  o = small();
  o.d_model(0);
  CHECK_THROWS_WITH(nn::Transformer(o), Contains("[Transformer] d_model is 0: it must be positive"));
  o = small();
  o.num_heads(5);
  CHECK_THROWS_WITH(nn::Transformer(o), Contains("num_heads must divide d_model"));
  o = small();
  o.num_decoder_layers(-1);
  CHECK_THROWS_WITH(nn::Transformer(o), Contains("num_layers is -1: it must not be negative"));
  const nn::Transformer model(small());
  CHECK_THROWS_WITH(model(zeros({1, 9}, int64), zeros({1, 1}, int64)),
                    Contains("source has shape [1, 9]") && Contains("max_length, 8"));
  CHECK_THROWS_WITH(model(zeros({1, 2}, int64), zeros({3}, int64)), Contains("target has shape [3]"));
  CHECK(model.head.weight.raw() == model.target_embedding.weight.raw());
  const Tensor ids = zeros({1, 2}, int64);
  const auto cache_under_autocast = [&] {
    const Autocast on(bfloat16);
    return model.make_cache(ids);
  };
  nn::DecoderCache cache = cache_under_autocast();
  CHECK_THROWS_WITH(
      model.decode(ids, cache),
      Contains("[MultiHeadAttention] the projected memory of the cache is bfloat16, the query is float32: "
               "make the cache and use it under the same Autocast"));
  nn::DecoderCache wide = model.make_cache(ids);
  const Autocast on(bfloat16);
  CHECK_NOTHROW(model.decode(ids, wide));
  nn::DecoderCache narrow = model.make_cache(ids);
  CHECK_NOTHROW(model.decode(ids, narrow));
}

}  // namespace fit::test::transformer_test
