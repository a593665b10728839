#include <string>
#include <vector>

#include "fit/graph/autocast.hpp"
#include "fit/matmul/reproducible.hpp"
#include "fit/nn/layers/position.hpp"
#include "fit/nn/layers/quantize.hpp"
#include "fit/nn/layers/recurrent.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// In the mode Reproducible a sequence has the same bits alone and in company, padded or not, from a cache or whole.
namespace fit::test::reproducible_models_test {
namespace {

constexpr std::int64_t vocabulary = 50, context = 160;

nn::GPTOptions small(nn::Positions positions = nn::Positions::learned) {
  return nn::GPTOptions()
      .vocab_size(vocabulary)
      .context_length(context)
      .num_layers(2)
      .num_heads(4)
      .d_model(48)
      .positions(positions);
}

// How a model stores and multiplies its weights.
enum class Weights { float32, bfloat16, int8, autocast };
constexpr Weights all_weights[] = {Weights::float32, Weights::bfloat16, Weights::int8, Weights::autocast};

void convert(nn::Layer& model, Weights weights) {
  model.eval();
  if (weights == Weights::bfloat16) model.to(bfloat16);
  if (weights == Weights::int8) nn::quantize_(model, nn::Int8WeightOnlyOptions().group_size(32));
}

// Calls body() for each way of storing weights and each instruction set, in the mode.
template <class Body>
void each_way(const Body& body) {
  const Reproducible mode;
  const NoGrad no_grad;
  each_bfloat16_isa([&] {
    for (const Weights weights : all_weights) {
      INFO("weights " << static_cast<int>(weights));
      const Autocast low(weights == Weights::autocast ? bfloat16 : float32);
      body(weights);
    }
  });
}

Tensor part(const Tensor& x, int axis, std::int64_t from, std::int64_t to) { return slice(x, axis, from, to); }

void check_gpt(const nn::GPTOptions& options, Weights weights) {
  manual_seed(1);
  nn::GPT gpt(options);
  convert(gpt, weights);
  Generator g(3);
  const std::int64_t T = 100;
  const Tensor ids = randint(0, vocabulary, {5, T}, g), all = gpt(ids);
  // Alone, beside others, elsewhere in the batch.
  CHECK(same_bits(gpt(part(ids, 0, 2, 3)), part(all, 0, 2, 3)));
  CHECK(same_bits(gpt(part(ids, 0, 1, 3)), part(all, 0, 1, 3)));
  const Tensor order = tensor({4, 2, 0, 1, 3});
  CHECK(same_bits(gpt(index_select(ids, 0, order)), index_select(all, 0, order)));
  // With anything behind it.
  for (const std::int64_t n : {1, 3, 7, 8, 63, 64, 65, 90})
    CHECK(same_bits(gpt(part(ids, 1, 0, n)), part(all, 1, 0, n)));
  // From a cache, in parts of any size.
  for (const std::int64_t step : {1, 2, 9, 70}) {
    INFO("steps of " << step);
    nn::KVCache cache = gpt.make_cache(1, T);
    for (std::int64_t t = 0; t < T; t += step) {
      const std::int64_t end = std::min(T, t + step);
      const Tensor now = gpt(part(part(ids, 0, 2, 3), 1, t, end), cache), whole = part(part(all, 0, 2, 3), 1, t, end);
      if (same_bits(now, whole)) continue;
      FAIL_CHECK("from position " << t);
      break;
    }
  }
}

}  // namespace

TEST_CASE("a GPT gives a sequence the same logits in any company", "[reproducible]") {
  each_way([](Weights weights) {
    // How weights are stored concerns products, where positions and heads do not matter.
    if (weights == Weights::float32) {
      for (const auto p : {nn::Positions::rotary, nn::Positions::alibi}) {
        INFO(nn::name_of(p));
        check_gpt(small(p), weights);
      }
      check_gpt(small(nn::Positions::rotary).num_kv_heads(2).window(40), weights);
      check_gpt(small(nn::Positions::alibi).num_kv_heads(1).window(70).tie_weights(false), weights);
    }
    check_gpt(small(), weights);
    check_gpt(small(nn::Positions::rotary)
                  .norm(nn::Norm::rms)
                  .activation(nn::Activation::swiglu)
                  .qk_norm(true)
                  .head_gates(true)
                  .value_embeddings(true)
                  .logit_cap(20)
                  .attention_logit_cap(5)
                  .windows({40, 0}),
              weights);
  });
}

TEST_CASE("an encoder gives a sequence the same features with any padding", "[reproducible]") {
  const auto options =
      nn::TransformerLayerOptions().d_model(48).num_heads(4).activation(nn::Activation::gelu).norm_first(true);
  each_way([&](Weights weights) {
    manual_seed(2);
    nn::TransformerEncoder encoder(options, 2);
    convert(encoder, weights);
    Generator g(4);
    const Tensor x = randn({4, 130, 48}, weights == Weights::bfloat16 ? bfloat16 : float32, g);
    const std::vector<std::int64_t> sizes = {130, 5, 64, 99};
    const Tensor mask = reshape(lt(reshape(arange(130), {1, 130}), reshape(tensor(sizes, {4}), {4, 1})), {4, 1, 130});
    const Tensor all = encoder(x, mask), unpadded = encoder(x, nn::without_padding(mask, x));
    for (std::int64_t row = 0; row < 4; ++row) {
      INFO("row " << row);
      const std::int64_t n = sizes[static_cast<std::size_t>(row)];
      const Tensor alone = encoder(part(part(x, 0, row, row + 1), 1, 0, n));
      CHECK(same_bits(part(part(all, 0, row, row + 1), 1, 0, n), alone));
      CHECK(same_bits(part(part(unpadded, 0, row, row + 1), 1, 0, n), alone));
      CHECK(same_bits(mean(alone, 1), mean(part(part(all, 0, row, row + 1), 1, 0, n), 1)));
    }
  });
}

TEST_CASE("an encoder-decoder gives a pair the same logits in any company, and from a cache", "[reproducible]") {
  auto options = nn::TransformerOptions().source_vocab(20).target_vocab(20).max_length(80).d_model(48).num_heads(4);
  options.num_encoder_layers(1).num_decoder_layers(2);
  each_way([&](Weights weights) {
    manual_seed(3);
    nn::Transformer model(options);
    convert(model, weights);
    Generator g(5);
    const Tensor source = randint(0, 20, {3, 70}, g), target = randint(0, 20, {3, 30}, g);
    const Tensor mask = reshape(lt(reshape(arange(70), {1, 70}), tensor({{70}, {9}, {65}})), {3, 1, 70});
    const Tensor all = model(source, target, mask);
    for (std::int64_t row = 0; row < 3; ++row) {
      INFO("row " << row);
      const std::int64_t n = row == 1 ? 9 : row == 2 ? 65 : 70;
      const Tensor from = part(part(source, 0, row, row + 1), 1, 0, n), to = part(target, 0, row, row + 1);
      CHECK(same_bits(model(from, to), part(all, 0, row, row + 1)));
      nn::DecoderCache cache = model.make_cache(from);
      for (std::int64_t t = 0; t < 30; ++t)
        if (!same_bits(model.decode(part(to, 1, t, t + 1), cache), part(part(all, 0, row, row + 1), 1, t, t + 1))) {
          FAIL_CHECK("position " << t);
          break;
        }
    }
  });
}

TEST_CASE("recurrent layers give a sequence the same outputs in any company", "[reproducible]") {
  const Reproducible mode;
  Generator g(6);
  const Tensor single = randn({9, 12, 30}, float32, g);
  each_bfloat16_isa([&] {
    const auto options = nn::RecurrentOptions().num_layers(2).bidirectional();
    const Tensor lengths = tensor({12, 3, 7, 7, 1, 12, 5, 9, 2});
    const auto check = [&](auto&& layer, DType dtype) {
      INFO(layer.name() << " of " << dtype);
      layer.to(dtype);
      const Tensor x = single.to(dtype), all = layer(x, {}, lengths).output;
      for (std::int64_t row = 0; row < 9; ++row) {
        const std::int64_t n = lengths.data<std::int64_t>()[row];
        CHECK(same_bits(layer(part(part(x, 0, row, row + 1), 1, 0, n)), part(part(all, 0, row, row + 1), 1, 0, n)));
      }
    };
    for (const DType dtype : {float32, bfloat16}) {
      check(nn::LSTM(30, 20, options), dtype);
      check(nn::GRU(30, 20, options), dtype);
      check(nn::RNN(30, 20, options), dtype);
    }
  });
}

TEST_CASE("greedy and sampled text do not depend on the batch", "[reproducible]") {
  const std::vector<nn::Tokens> prompts = {{1, 2, 3}, {7}, {4, 4}, {9, 8, 7, 6, 5, 4, 3, 2}, {20, 30, 40}, {5}};
  each_way([&](Weights weights) {
    manual_seed(4);
    nn::GPT gpt(small(nn::Positions::rotary)), assistant(small().num_layers(1).d_model(32).num_heads(2));
    convert(gpt, weights);
    convert(assistant, weights);
    for (const double temperature : {0., 1.3}) {
      const auto text = [&](std::size_t batch, const nn::GPT* by) {
        Generator g(8);
        auto o = nn::GenerateOptions().max_new_tokens(40).temperature(temperature).generator(&g).stop_tokens({11});
        o.assistant_model(by).repetition_penalty(1.1);
        std::vector<nn::Tokens> all;
        for (std::size_t i = 0; i < prompts.size(); i += batch) {
          const std::vector<nn::Tokens> some(
              prompts.begin() + static_cast<std::ptrdiff_t>(i),
              prompts.begin() + static_cast<std::ptrdiff_t>(std::min(prompts.size(), i + batch)));
          for (const nn::Tokens& t : nn::generate(gpt, some, o)) all.push_back(t);
        }
        return all;
      };
      const std::vector<nn::Tokens> one = text(1, nullptr);
      CHECK(text(2, nullptr) == one);
      CHECK(text(6, nullptr) == one);
      // Speculative decoding returns the plain text, with a good assistant and a bad one.
      CHECK(text(4, &assistant) == one);
      CHECK(text(6, &gpt) == one);
    }
  });
}

TEST_CASE("the loss of an evaluation does not depend on the batch", "[reproducible]") {
  each_way([](Weights weights) {
    manual_seed(5);
    nn::GPT gpt(small());
    convert(gpt, weights);
    Generator g(9);
    const Tensor ids = randint(0, vocabulary, {12, 33}, g);
    const auto loss = [&](std::int64_t batch) {
      double total = 0;
      for (std::int64_t i = 0; i < 12; i += batch) {
        const Tensor some = part(ids, 0, i, i + batch), logits = gpt(part(some, 1, 0, 32));
        const auto options = nn::CrossEntropyOptions().reduction(nn::Reduction::none);
        for (const double l : values(nn::cross_entropy(logits, part(some, 1, 1, 33), options))) total += l;
      }
      return total / (12 * 32);
    };
    CHECK(loss(1) == loss(12));
    CHECK(loss(4) == loss(12));
  });
}

TEST_CASE("errors of assistants", "[reproducible]") {
  const nn::GPT gpt(small()), other(nn::GPTOptions(small()).vocab_size(9)),
      brief(nn::GPTOptions(small()).context_length(8));
  const auto run = [&](const nn::GPT& by, std::int64_t tokens) {
    return nn::generate(gpt, {{1, 2, 3}},
                        nn::GenerateOptions().max_new_tokens(9).assistant_model(&by).num_assistant_tokens(tokens));
  };
  CHECK_THROWS_WITH(run(gpt, 0), "[generate] num_assistant_tokens is 0: it must be at least 1");
  CHECK_THROWS_WITH(run(other, 4), "[generate] the assistant_model has vocab_size 9, the model 50: they must agree");
  CHECK_THROWS_WITH(run(brief, 4),
                    "[generate] the longest prompt has 3 tokens, and max_new_tokens is 9: with an assistant_model they "
                    "must be at most both context lengths, 8");
  const nn::GPT dropping(nn::GPTOptions(small()).dropout(0.1));
  CHECK_THROWS_WITH(run(dropping, 4),
                    "[generate] the assistant_model has dropout and is in training: call its eval() first");
}

}  // namespace fit::test::reproducible_models_test
