#include <functional>
#include <memory>

#include "fit/nn/attention/attention.hpp"
#include "fit/nn/attention/kv_cache.hpp"
#include "fit/nn/distributions/distributions.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/nn/layer/parametrize.hpp"
#include "fit/nn/layer/per_sample_grad.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/convolution.hpp"
#include "fit/nn/layers/feed_forward.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/nn/layers/position.hpp"
#include "fit/nn/lens/lens.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/metrics/metrics.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/nn/optim/more/lbfgs.hpp"
#include "fit/nn/optim/muon.hpp"
#include "fit/nn/optim/schedule.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tables/refusals.hpp"
#include "support/tensors.hpp"

// Each condition on an argument is violated alone.
namespace fit::test::nn_refusals_test {
namespace {

nn::GPTOptions small_gpt() {
  return nn::GPTOptions().vocab_size(5).context_length(6).num_layers(2).num_heads(2).d_model(8);
}

nn::TransformerOptions small_transformer() {
  nn::TransformerOptions o;
  o.source_vocab(5).target_vocab(6).max_length(4).num_encoder_layers(1).num_decoder_layers(2);
  o.d_model(8).num_heads(2).dropout(0);
  return o;
}

}  // namespace

TEST_CASE("positions refuse sizes and scalings out of range", "[refusals]") {
  const auto table = [](std::int64_t T, std::int64_t D, nn::RotaryTableOptions o = {}) {
    return [=] { return nn::rotary_table(T, D, o); };
  };
  const auto yarn = [] { return nn::RotaryTableOptions().scaling(nn::RotaryScaling::yarn).original_length(8); };
  check_refused({
      {"[sinusoidal_positions] T is -1, C is 2", [] { return nn::sinusoidal_positions(-1, 2); }},
      {"[sinusoidal_positions] T is 2, C is -1", [] { return nn::sinusoidal_positions(2, -1); }},
      {"[rotary_table] T is -1, D is 4", table(-1, 4)},
      {"[rotary_table] T is 4, D is -2", table(4, -2)},
      {"[rotary_table] T is 4, D is 3", table(4, 3)},
      {"base is 0", table(4, 4, nn::RotaryTableOptions().base(0))},
      {"features is -2, D is 4", table(4, 4, nn::RotaryTableOptions().features(-2))},
      {"features is 6, D is 4", table(4, 4, nn::RotaryTableOptions().features(6))},
      {"features is 3, D is 4", table(4, 4, nn::RotaryTableOptions().features(3))},
      {"factor is 0", table(4, 4, nn::RotaryTableOptions().factor(0))},
      {"factor is inf", table(4, 4, nn::RotaryTableOptions().factor(inf))},
      {"factor is 8, and scaling is none", table(4, 4, nn::RotaryTableOptions().factor(8))},
      {"attention_factor is 0: it must be positive", table(4, 4, yarn().attention_factor(0))},
      {"mscale is given alone: give mscale and mscale_all_dim", table(4, 4, yarn().mscale(1))},
      {"mscale_all_dim is given alone", table(4, 4, yarn().mscale_all_dim(1))},
      {"mscale_all_dim is inf: it must be positive and finite", table(4, 4, yarn().mscale(1).mscale_all_dim(inf))},
      {"yarn needs a positive length", table(4, 4, yarn().original_length(0))},
      {"beta_fast 32, beta_slow 0", table(4, 4, yarn().beta_slow(0))},
      {"beta_fast 0.5, beta_slow 1", table(4, 4, yarn().beta_fast(0.5))},
      {"beta_fast 4, beta_slow 4: llama3 needs a positive length",
       table(4, 4, yarn().scaling(nn::RotaryScaling::llama3).beta_slow(4))},
      {"beta_fast nan, beta_slow 1", table(4, 4, yarn().beta_fast(nan))},
      {"beta_fast inf, beta_slow 1", table(4, 4, yarn().beta_fast(inf))},
      {"[alibi_slopes] num_heads is 0", [] { return nn::alibi_slopes(0); }},
      {"[alibi_slopes] num_heads is 1048577", [] { return nn::alibi_slopes((1 << 20) + 1); }},
      {"[alibi_bias] queries is -1, keys is 2", [] { return nn::alibi_bias(2, -1, 2); }},
      {"[alibi_bias] queries is 2, keys is -1", [] { return nn::alibi_bias(2, 2, -1); }},
  });
}

TEST_CASE("a cache of keys and values refuses sizes, rows and lengths that it doesn't have", "[refusals]") {
  using Shapes = std::vector<nn::KVCache::LayerShape>;
  const auto made = [](std::int64_t heads, std::int64_t batch, std::int64_t length, std::int64_t size,
                       std::int64_t value = 0) {
    return [=] { return nn::KVCache(Shapes{{heads, size, value}}, batch, length); };
  };
  nn::KVCache cache({{2, 4}, {2, 4}}, 2, 3);
  cache.advance(2);
  check_refused({
      {"sizes are batch -1", made(2, -1, 3, 4)},
      {"-2 heads", made(-2, 1, 3, 4)},
      {"max_length -3", made(2, 1, -3, 4)},
      {"head_size -4", made(2, 1, 3, -4)},
      {"value_size -1: none may be negative", made(2, 1, 3, 4, -1)},
      {"dtype is int64",
       [] {
         return nn::KVCache({{2, 4}}, 1, 3, int64);
       }},
      {"there is no layer 2: there are 2", [&] { return cache[2]; }},
      {"the cache has batch 2, and there are 3 rows",
       [&] {
         cache.check_fits("GPT", {{2, 4}, {2, 4}}, 3, float32);
       }},
      {"the cache has 2 layers, the model 1",
       [&] {
         cache.check_fits("GPT", {{2, 4}}, 2, float32);
       }},
      {"the model has 1 of 4",
       [&] {
         cache.check_fits("GPT", {{2, 4}, {1, 4}}, 2, float32);
       }},
      {"the model has 2 of 5",
       [&] {
         cache.check_fits("GPT", {{2, 4}, {2, 5}}, 2, float32);
       }},
      {"values of 6, float32",
       [&] {
         cache.check_fits("GPT", {{2, 4}, {2, 4, 6}}, 2, float32);
       }},
      {"values of 4, float64",
       [&] {
         cache.check_fits("GPT", {{2, 4}, {2, 4}}, 2, float64);
       }},
      {"it holds 2 positions, and 2 more come", [&] { cache.advance(2); }},
      {"it holds 2 positions, and -1 more come", [&] { cache.advance(-1); }},
      {"length is -1: it must be in 0 … 2", [&] { cache.truncate(-1); }},
      {"length is 3: it must be in 0 … 2", [&] { cache.truncate(3); }},
      {"length is -1: it must be in 0 … 2", [&] { cache.keep(-1, {}); }},
      {"length is 3: it must be in 0 … 2", [&] { cache.keep(3, {}); }},
      {"place 0 is -1", [&] { cache.keep(0, {-1}); }},
      {"place 1 is 0: places must increase",
       [&] {
         cache.keep(0, {0, 0});
       }},
      {"place 0 is 2", [&] { cache.keep(0, {2}); }},
      {"row -1 of 2", [&] { cache.select({-1}); }},
      {"row 2 of 2", [&] { cache.select({2}); }},
      {"padding has 1 numbers", [&] { cache.set_padding({0}); }},
      {"a padding is -1: it must be in 0 … 3",
       [&] {
         cache.set_padding({0, -1});
       }},
      {"a padding is 4: it must be in 0 … 3",
       [&] {
         cache.set_padding({0, 4});
       }},
      {"it holds 2 positions: the padding comes before the first",
       [&] {
         cache.set_padding({0, 1});
       }},
      {"keys is -1: it must be in 0 … 3", [&] { return cache.mask(-1); }},
      {"keys is 4: it must be in 0 … 3", [&] { return cache.mask(4); }},
  });
  CHECK(cache.length() == 2);  // nothing of it has changed
  CHECK(cache.batch() == 2);
}

TEST_CASE("layers refuse sizes and parts that don't fit", "[refusals]") {
  const auto heads = [](std::int64_t d_model, std::int64_t num_heads, nn::MultiHeadAttentionOptions o = {}) {
    return [=] { return nn::MultiHeadAttention(d_model, num_heads, o); };
  };
  const auto options = [] { return nn::MultiHeadAttentionOptions(); };
  const nn::MultiHeadAttention attention(8, 2);
  nn::Sequential net(nn::Linear(2, 3), nn::ReLU());
  check_refused({
      {"d_model is 0, num_heads is 1", heads(0, 1)},
      {"d_model is 8, num_heads is 0", heads(8, 0)},
      {"d_model is 8, num_heads is 3", heads(8, 3)},
      {"num_kv_heads is 0, num_heads is 2", heads(8, 2, options().num_kv_heads(0))},
      {"num_kv_heads is 3, num_heads is 4", heads(8, 4, options().num_kv_heads(3))},
      {"kdim is 0: it must be positive", heads(8, 2, options().kdim(0))},
      {"vdim is -1: it must be positive", heads(8, 2, options().vdim(-1))},
      {"dropout is -0.5", heads(8, 2, options().dropout(-0.5))},
      {"dropout is 1.5", heads(8, 2, options().dropout(1.5))},
      {"temperature is 0", heads(8, 2, options().temperature(0))},
      {"temperature is inf", heads(8, 2, options().temperature(inf))},
      {"scale is nan: it must be finite", heads(8, 2, options().scale(nan))},
      {"query has shape [3, 8]: it must be (B, S, 8)",
       [&] {
         return attention(ones({3, 8}), ones({1, 3, 8}), ones({1, 3, 8}));
       }},
      {"key has shape [1, 3, 7]",
       [&] {
         return attention(ones({1, 3, 8}), ones({1, 3, 7}), ones({1, 3, 8}));
       }},
      {"d_model is 1099511627777: it must be at most 2^40",
       [] { return nn::FeedForward((std::int64_t{1} << 40) + 1, 1); }},
      {"[Lambda] the function is empty", [] { return nn::Lambda(nullptr); }},
      {"'0' of Sequential is not a parameter", [&] { return net.parameter("0"); }},
      {"'0.weight' of Sequential is not a layer", [&] { net.layer("0.weight"); }},
      {"has nothing that is called '7'", [&] { net.layer("7"); }},
      {"'0.weight' of Sequential is not a layer", [&] { net.replace("0.weight", std::make_shared<nn::Linear>(2, 3)); }},
      {"the layer for '0' is a null pointer", [&] { net.replace("0", nullptr); }},
      {"[Sequential] a layer is a null pointer", [&] { net.replace(0, std::shared_ptr<nn::Linear>()); }},
      {"[Sequential] a layer is a null pointer", [] { return nn::Sequential(std::shared_ptr<nn::Linear>()); }},
      {"[TransformerEncoderLayer] a layer is a null pointer",
       [] {
         const std::shared_ptr<nn::LayerNorm> none;
         nn::TransformerEncoderLayer(nn::MultiHeadAttention(4, 2), none, nn::FeedForward(4, 8), nn::LayerNorm(4));
       }},
      {"is not held by a std::shared_ptr: assign to the member",
       [] {
         nn::GPT gpt(small_gpt());
         gpt.replace("wte", std::make_shared<nn::Embedding>(5, 8));
       }},
      {"[parametrize] the layer is a null pointer",
       [] {
         nn::Linear linear(2, 3);
         nn::parametrize(linear.weight, std::shared_ptr<nn::UnaryLayer>());
       }},
      {"gives float64 [3, 2], the parameter is float32 [3, 2]: they must be alike",
       [] {
         nn::Linear linear(2, 3);
         nn::parametrize(linear.weight, nn::Lambda([](const Tensor& x) { return x.to(float64); }));
       }},
      {"gives float32 [2, 3], the parameter is float32 [3, 2]",
       [] {
         nn::Linear linear(2, 3);
         nn::parametrize(linear.weight, nn::Lambda([](const Tensor& x) { return transpose(x); }));
       }},
      {"[LowRank] alpha is inf: it must be finite", [] { return nn::LowRank(2, 3, 1, inf); }},
      {"groups is 3: it must divide in_channels 4 and out_channels 6",
       [] { return nn::Conv1d(4, 6, 3, ConvOptions().groups(3)); }},
      {"groups is 4: it must divide in_channels 4 and out_channels 6",
       [] { return nn::Conv1d(4, 6, 3, ConvOptions().groups(4)); }},
      {"groups is 3: it must divide channels = 4", [] { return nn::GroupNorm(3, 4); }},
      {"[GroupNorm] eps is nan: it must not be negative", [] { return nn::GroupNorm(1, 3, NAN); }},
      {"[BatchNorm] eps is -1: it must not be negative", [] { return nn::BatchNorm(3, -1.); }},
      {"[BatchNorm] x has shape [2, 4], weight [3]: x must be [N, C, ...] with C = channels = 3",
       [] {
         return nn::BatchNorm(3)(ones({2, 4}));
       }},
      {"[GroupNorm] x has shape [4], weight [3]: x must be [N, C, ...] with C = channels = 3",
       [] { return nn::GroupNorm(1, 3)(ones({4})); }},
      {"[BatchNorm] momentum is -0.5", [] { return nn::BatchNorm(2, 1e-5, -0.5); }},
      {"[BatchNorm] momentum is 1.5", [] { return nn::BatchNorm(2, 1e-5, 1.5); }},
      {"[BatchNorm] x has shape [1, 2]: in training, a batch needs more than one number for each channel. A DataLoader "
       "with drop_last",
       [] {
         return nn::BatchNorm(2)(ones({1, 2}));
       }},
      {"there is no such nonlinearity", [] { return nn::init::gain(static_cast<nn::init::Nonlinearity>(99)); }},
      {"std is 0, low -2, high 2", [] { return nn::init::trunc_normal_(ones({2}), 0, 0); }},
      {"low 2, high -2: std must be above 0", [] { return nn::init::trunc_normal_(ones({2}), 0, 1, 2, -2); }},
  });
}

TEST_CASE("gradients of single examples refuse batches that have no rows", "[refusals]") {
  const nn::Linear linear(2, 1);
  const auto loss = [](const nn::Linear& l, const Tensor& x) { return sum(l(x)); };
  const auto squared = [](const nn::Linear& l, const Tensor& x, const Tensor& y) { return sum(square(l(x) - y)); };
  check_refused({
      {"no tensors are given: the batch has at least one",
       [&] { return nn::per_sample_grad([](const nn::Linear& l) { return sum(l(ones({2}))); }, linear); }},
      {"the batch has tensors of shapes [] and []", [&] { return nn::per_sample_grad(loss, linear, tensor(1.)); }},
      {"the batch has tensors of shapes [0, 2] and [0, 2]",
       [&] {
         return nn::per_sample_grad(loss, linear, ones({0, 2}));
       }},
      {"the batch has tensors of shapes [3, 2] and [2, 1]",
       [&] {
         return nn::per_sample_grad(squared, linear, ones({3, 2}), ones({2, 1}));
       }},
      {"changed: a layer that keeps statistics of batches mixes their examples; call eval() on it",
       [] {
         const nn::BatchNorm norm(2);
         return nn::per_sample_grad([](const nn::BatchNorm& n, const Tensor& x) { return sum(n(x)); }, norm,
                                    ones({3, 2, 4}));
       }},
  });
}

TEST_CASE("models refuse options and inputs that don't fit", "[refusals]") {
  const auto gpt = [](const nn::GPTOptions& o) { return [=] { return nn::GPT(o); }; };
  nn::Transformer model(small_transformer());
  model.eval();
  const Tensor ids = zeros({2, 3}, int64);
  check_refused({
      {"d_model is 8, num_heads is 3: num_heads must divide d_model", gpt(small_gpt().num_heads(3))},
      {"num_heads is 2, num_kv_heads is 3", gpt(small_gpt().num_kv_heads(3))},
      {"rotary positions want an even number of features in a head",
       gpt(small_gpt().positions(nn::Positions::rotary).head_size(3))},
      {"window is -1: it must not be negative", gpt(small_gpt().window(-1))},
      {"a window of windows is -1", gpt(small_gpt().windows({2, -1}))},
      {"logit_cap is -1", gpt(small_gpt().logit_cap(-1))},
      {"logit_cap is inf", gpt(small_gpt().logit_cap(inf))},
      {"logit_cap is nan", gpt(small_gpt().logit_cap(nan))},
      {"num_layers is -1: it must not be negative", [] { return nn::TransformerEncoder(small_transformer(), -1); }},
      {"num_layers is -1: it must not be negative", [] { return nn::TransformerDecoder(small_transformer(), -1); }},
      {"source has shape [3] behind 0 positions", [&] { return model(zeros({3}, int64), ids); }},
      {"target has shape [3] behind 0 positions", [&] { return model(ids, zeros({3}, int64)); }},
      {"source has shape [2, 5] behind 0 positions",
       [&] {
         return model(zeros({2, 5}, int64), ids);
       }},
      {"source has shape [1, 3], target [2, 3]: they must have the same batch",
       [&] {
         return model(zeros({1, 3}, int64), ids);
       }},
      {"memory has shape [2, 8]: it must be (B, S, d_model)",
       [&] {
         return model.decoder.make_cache(ones({2, 8}), {}, 4);
       }},
      {"the cache has a memory for 1 layers, the model 2",
       [&] {
         nn::DecoderCache cache = model.make_cache(ids);
         cache.memory.pop_back();
         return model.decode(ids, cache);
       }},
      {"row -1 of 2: there is none such",
       [&] {
         nn::DecoderCache cache = model.make_cache(ids);
         cache.select({0, -1});
       }},
      {"row 2 of 2: there is none such",
       [&] {
         nn::DecoderCache cache = model.make_cache(ids);
         cache.select({2});
       }},
      {"[BERT] num_layers is 0: it must be positive",
       [] { return nn::BERT(nn::BERTOptions().vocab_size(5).max_length(4).d_model(8).num_heads(2)); }},
      {"[BERT] num_heads is 0: it must be positive",
       [] { return nn::BERT(nn::BERTOptions().vocab_size(5).max_length(4).d_model(8).num_layers(1)); }},
      {"ids has shape [3]: it must be [B, T], T at most max_length, 4",
       [] {
         nn::BERTOptions o;
         o.vocab_size(5).max_length(4).num_layers(1).d_model(8).num_heads(2);
         return nn::BERT(o)(zeros({3}, int64));
       }},
      {"ids has shape [1, 5]",
       [] {
         nn::BERTOptions o;
         o.vocab_size(5).max_length(4).num_layers(1).d_model(8).num_heads(2);
         return nn::BERT(o)(zeros({1, 5}, int64));
       }},
      {"segments has shape [1, 2], ids [1, 3]: they must be equal",
       [] {
         nn::BERTOptions o;
         o.vocab_size(5).max_length(4).num_layers(1).d_model(8).num_heads(2);
         return nn::BERT(o).forward(zeros({1, 3}, int64), {}, zeros({1, 2}, int64));
       }},
      {"[beam_search] the model has dropout and is in training",
       [&] { return nn::beam_search(nn::Transformer(small_transformer().dropout(0.5)), ids, {}, nn::BeamOptions()); }},
      {"[beam_search] max_length is 5: the model's is 4",
       [&] { return nn::beam_search(model, ids, {}, nn::BeamOptions().max_length(5)); }},
      {"the step gave logits of shape [1, 3] for 2 rows",
       [] {
         return nn::beam_search(
             [](const nn::Tokens&, const std::vector<std::int64_t>&) {
               return ones({1, 3});
             },
             2, nn::BeamOptions().max_length(3));
       }},
      {"the step gave logits of shape [2, 0] for 2 rows",
       [] {
         return nn::beam_search(
             [](const nn::Tokens&, const std::vector<std::int64_t>&) {
               return ones({2, 0});
             },
             2, nn::BeamOptions().max_length(3));
       }},
      {"the step gave logits of shape [2] for 2 rows",
       [] {
         return nn::beam_search([](const nn::Tokens&, const std::vector<std::int64_t>&) { return ones({2}); }, 2,
                                nn::BeamOptions().max_length(3));
       }},
      {"[sample_token] the sequence has the token -1",
       [] {
         return nn::sample_token(ones({3}), {0, -1}, {}, 0.5);
       }},
      {"[sample_token] the sequence has the token 3", [] { return nn::sample_token(ones({3}), {3}, {}, 0.5); }},
      {"[sample_token] logits is [0]", [] { return nn::sample_token(ones({0}), {}, {}, 0.5); }},
      {"[sample_token] logits is [1, 3]",
       [] {
         return nn::sample_token(ones({1, 3}), {}, {}, 0.5);
       }},
      {"[sample_token] uniform is -0.5", [] { return nn::sample_token(ones({3}), {}, {}, -0.5); }},
      {"[sample_token] uniform is 1", [] { return nn::sample_token(ones({3}), {}, {}, 1); }},
  });
}

TEST_CASE("questions to a model refuse places that it doesn't have", "[refusals]") {
  nn::GPT gpt(small_gpt());
  gpt.eval();
  const Tensor ids = tensor({{0, 1, 2}});
  const nn::Lens lens(gpt);
  const nn::LensRun run = lens.run(ids);
  nn::GPT dropping(small_gpt().dropout(0.5));
  const auto measure = [&] { return sum(gpt(ids)); };
  check_refused({
      {"the model has dropout and is in training", [&] { return nn::logit_attribution(dropping, ids, 0); }},
      {"position is 3, ids has shape [1, 3]: there are 3", [&] { return nn::logit_attribution(gpt, ids, 0, 3); }},
      {"position is -4", [&] { return nn::logit_attribution(gpt, ids, 0, -4); }},
      {"token is -1: it must be in 0 … 4", [&] { return nn::logit_attribution(gpt, ids, -1); }},
      {"token is 5: it must be in 0 … 4", [&] { return nn::logit_attribution(gpt, ids, 5); }},
      {"ids has shape [1, 2]",
       [&] {
         return nn::head_scores(run, tensor({{0, 1}}));
       }},
      {"steps is 0: it must be positive",
       [&] { return nn::integrated_gradients(lens, "h.0.resid_post", measure, {}, 0); }},
      {"head -3 is edited in", [&] { return lens.with("h.0.attn.weights", nn::head(-3), nn::zero()).run(ids); }},
      {"head 2 is edited in", [&] { return lens.with("h.0.attn.weights", nn::head(2), nn::zero()).run(ids); }},
      {"the run has kept no value 'h.0.resid_pos': do you mean 'h.0.resid_post'?",
       [&] { return run["h.0.resid_pos"]; }},
      {"the run has kept no value 'qqqqqqqqqqqqqqqqqqqq'", [&] { return run["qqqqqqqqqqqqqqqqqqqq"]; }},
  });
}

TEST_CASE("losses, metrics and distributions refuse shapes that don't fit", "[refusals]") {
  const Tensor x = ones({2, 3}), one = tensor(1.);
  check_refused({
      {"targets is float32 [], logits []", [=] { return nn::cross_entropy(one, one); }},
      {"input is [2, 3], var [3]: var must have this shape", [=] { return nn::gaussian_nll_loss(x, x, ones({3})); }},
      {"input is [], var [1]", [=] { return nn::gaussian_nll_loss(one, one, ones({1})); }},
      {"a is [], b [], target []", [=] { return nn::cosine_embedding_loss(one, one, one); }},
      {"a is [2, 3], b [2, 4], target [2]",
       [=] {
         return nn::cosine_embedding_loss(x, ones({2, 4}), ones({2}));
       }},
      {"a is [2, 3], b [2, 3], target [3]", [=] { return nn::cosine_embedding_loss(x, x, ones({3})); }},
      {"margin is inf: it must be finite",
       [=] { return nn::cosine_embedding_loss(x, x, ones({2}), nn::CosineEmbeddingOptions().margin(inf)); }},
      {"logits are [], targets []", [=] { return metrics::accuracy(one, zeros({}, int64)); }},
      {"logits are [2, 3], targets [3]", [=] { return metrics::accuracy(x, zeros({3}, int64)); }},
      {"logits are [2, 0], targets [2]",
       [] {
         return metrics::accuracy(ones({2, 0}), zeros({2}, int64));
       }},
      {"classes is 0", [] { return metrics::ConfusionMatrix(0); }},
      {"classes is 32769: it must be in 1 … 32768", [] { return metrics::ConfusionMatrix(32769); }},
      {"there is no class -1", [] { return metrics::ConfusionMatrix(3).precision(-1); }},
      {"there is no class 3", [] { return metrics::ConfusionMatrix(3).precision(3); }},
      {"probs has shape []", [=] { return distributions::Categorical(one); }},
      {"probs has shape [2, 0]",
       [] {
         return distributions::Categorical(ones({2, 0}));
       }},
  });
}

TEST_CASE("optimisers and schedules refuse numbers out of range", "[refusals]") {
  const Tensor w = ones({2}).requires_grad_();
  optim::SGD sgd({w}, 0.1);
  const auto lbfgs = [](
                         const optim::LBFGSOptions& o,
                         const std::function<Tensor()>& closure = [] { return tensor(1.); }) {
    return [=] {
      const Tensor x = ones({2}).requires_grad_();
      return optim::LBFGS({x}, o).step(closure);
    };
  };
  const auto schedule = [&](std::int64_t steps, std::int64_t warmup, std::int64_t decay) {
    return [&, steps, warmup, decay] { return optim::WarmupStableDecayLR(sgd, steps, warmup, decay), void(); };
  };
  check_refused({
      {"[LBFGS] there are no parameters", [] { return optim::LBFGS(optim::Parameters(StateDict())), void(); }},
      {"max_iter is 0", lbfgs(optim::LBFGSOptions().max_iter(0))},
      {"max_eval is -1", lbfgs(optim::LBFGSOptions().max_eval(-1))},
      {"history_size is 0", lbfgs(optim::LBFGSOptions().history_size(0))},
      {"the closure is empty", lbfgs({}, nullptr)},
      {"the loss is undefined: the closure must give one number", lbfgs({}, [] { return Tensor(); })},
      {"the loss is of shape [2]", lbfgs({}, [] { return ones({2}); })},
      {"the loss is nan", lbfgs({}, [] { return tensor(nan); })},
      {"the loss is 1, the largest gradient inf",
       [] {
         Tensor x = ones({2}).requires_grad_();
         optim::LBFGS lbfgs({x});
         return lbfgs.step([&] {
           x.set_grad(tensor({1., inf}));
           return tensor(1.);
         });
       }},
      {"patience is -1, cooldown 0",
       [&] { return optim::ReduceLROnPlateau(sgd, optim::PlateauOptions().patience(-1)); }},
      {"patience is 10, cooldown -1",
       [&] { return optim::ReduceLROnPlateau(sgd, optim::PlateauOptions().cooldown(-1)); }},
      {"start_factor is 0", [&] { return optim::LinearLR(sgd, 0), void(); }},
      {"start_factor is 1.5", [&] { return optim::LinearLR(sgd, 1.5), void(); }},
      {"end_factor is -1", [&] { return optim::LinearLR(sgd, 1, -1), void(); }},
      {"end_factor is 1.5", [&] { return optim::LinearLR(sgd, 1, 1.5), void(); }},
      {"warmup is -1, decay 0, steps 5", schedule(5, -1, 0)},
      {"warmup is 0, decay -1, steps 5", schedule(5, 0, -1)},
      {"warmup is 3, decay 3, steps 5", schedule(5, 3, 3)},
      {"decay is -0.5: it must be in 0 … 1", [&] { return optim::ExponentialMovingAverage({w}, -0.5), void(); }},
      {"decay is 1.5: it must be in 0 … 1", [&] { return optim::ExponentialMovingAverage({w}, 1.5), void(); }},
      {"the name w is there twice",
       [&] {
         return optim::SGD(optim::Parameters(StateDict{{"w", w}, {"w", ones({2}).requires_grad_()}}), 0.1), void();
       }},
      {"the parameter of step() is not one of the optimiser's", [&] { sgd.step(Tensor()); }},
      {"the parameter of step() is not one of the optimiser's", [&] { sgd.step(ones({2}).requires_grad_()); }},
      {"has shape [2]: only a matrix can be orthogonalised", [&] { return optim::Muon({w}), void(); }},
  });
}

}  // namespace fit::test::nn_refusals_test
