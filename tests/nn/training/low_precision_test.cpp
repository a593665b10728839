#include <cmath>

#include "fit/base/memory.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/recurrent.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/nn/training/trainer.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Whole models in bfloat16, and under Autocast.
namespace fit::test::low_precision_test {
namespace {

nn::GPTOptions small_options(nn::Positions positions = nn::Positions::learned) {
  return nn::GPTOptions()
      .vocab_size(23)
      .context_length(16)
      .num_layers(2)
      .num_heads(4)
      .num_kv_heads(2)
      .d_model(32)
      .positions(positions);
}

Tensor tokens(std::int64_t rows, std::int64_t length) {
  Generator g(3);
  return randint(0, 23, {rows, length}, g);
}

double off(const Tensor& a, const Tensor& b) {
  const Tensor wide = b.detach().to(float64);
  return norm(a.detach().to(float64) - wide).item() / norm(wide).item();
}

Tensor loss_of(const nn::GPT& model, const Tensor& ids) {
  return model.loss(ids[{range(), range(0, -1)}], ids[{range(), range(1)}]);
}

}  // namespace

TEST_CASE("low precision: the gradients of a GPT under Autocast are near float64's", "[autocast]") {
  for (const nn::Positions positions : {nn::Positions::learned, nn::Positions::rotary, nn::Positions::alibi}) {
    INFO(nn::name_of(positions));
    manual_seed(7);
    nn::GPT model(small_options(positions));
    const auto exact = nn::clone(model);
    nn::GPT& wide = *exact;
    wide.to(float64);
    const Tensor ids = tokens(3, 13);
    loss_of(wide, ids).backward();
    {
      const Autocast on(bfloat16);
      const Tensor loss = loss_of(model, ids);
      CHECK(loss.dtype() == float32);
      loss.backward();
    }
    const StateDict narrow = model.named_parameters(), all = wide.named_parameters();
    double error = 0, size = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Tensor g = narrow[i].second.grad(), e = all[i].second.grad();
      INFO(all[i].first);
      REQUIRE(g.defined());
      CHECK(g.dtype() == float32);
      error += sum((g.to(float64) - e) * (g.to(float64) - e)).item();
      size += sum(e * e).item();
    }
    CHECK(std::sqrt(error / size) < 0.02);
  }
}

TEST_CASE("low precision: the number of threads changes no bit of a GPT's gradients", "[autocast]") {
  manual_seed(7);
  nn::GPT model(small_options());
  const Tensor ids = tokens(8, 17);
  check_threads([&] {
    model.zero_grad();
    const Autocast on(bfloat16);
    loss_of(model, ids).backward();
    std::vector<Tensor> all;
    for (const Tensor& p : model.parameters()) all.push_back(reshape(p.grad(), {-1}));
    return cat(all);
  });
}

TEST_CASE("low precision: blocks that are computed again give the gradients of those that are not", "[autocast]") {
  manual_seed(7);
  nn::GPTOptions o = small_options();
  o.dropout(0.1);
  nn::GPT plain(o);
  o.checkpoint_blocks(true);
  nn::GPT again(o);
  again.load_state_dict(plain.state_dict());
  const Tensor ids = tokens(3, 13);
  for (nn::GPT* const model : {&plain, &again}) {
    manual_seed(5);
    Tensor loss;
    {
      const Autocast on(bfloat16);
      loss = loss_of(*model, ids);
    }
    loss.backward();
  }
  const std::vector<Tensor> a = plain.parameters(), b = again.parameters();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(max_difference(a[i].grad(), b[i].grad()) < 1e-6);
}

TEST_CASE("low precision: an encoder, a decoder and recurrent layers run under Autocast", "[autocast]") {
  manual_seed(7);
  const auto o = nn::TransformerLayerOptions().d_model(16).num_heads(2).dropout(0);
  const nn::TransformerEncoder encoder(o, 2);
  const nn::TransformerDecoder decoder(o, 2);
  const nn::LSTM lstm(16, 12);
  const Tensor x = randn({2, 5, 16}), y = randn({2, 7, 16});
  const auto run = [&] { return lstm(decoder.forward(y, encoder.forward(x))); };
  const Tensor plain = run();
  const Autocast on(bfloat16);
  const Tensor narrow = run();
  CHECK(off(narrow, plain) < 0.03);
  sum(narrow).backward();
  for (const Tensor& p : lstm.parameters()) CHECK(p.grad().dtype() == float32);
}

TEST_CASE("low precision: a model in bfloat16", "[bfloat16]") {
  manual_seed(7);
  nn::GPT model(small_options());
  const Tensor ids = tokens(2, 9), plain = model(ids);
  model.to(bfloat16);
  const Tensor narrow = model(ids);
  CHECK(narrow.dtype() == bfloat16);
  CHECK(off(narrow, plain) < 0.03);
  loss_of(model, ids).backward();
  for (const Tensor& p : model.parameters()) CHECK(p.grad().dtype() == bfloat16);
  CHECK_THROWS_WITH(optim::AdamW(model.parameters()),
                    "[AdamW] the parameter 0 is bfloat16, in which small steps are lost: train float32 parameters "
                    "under Autocast(bfloat16), or freeze it");
}

TEST_CASE("low precision: keys and values are kept in bfloat16 where that is asked for", "[bfloat16]") {
  manual_seed(7);
  nn::GPT model(small_options());
  model.eval();
  const Tensor ids = tokens(2, 11);
  const NoGrad no_grad;
  const auto in_pieces = [&](DType dtype) {
    nn::KVCache cache = model.make_cache(2, 16, dtype);
    CHECK(cache[0].keys.dtype() == dtype);
    std::vector<Tensor> logits{model(ids[{range(), range(0, 6)}], cache)};
    for (std::int64_t t = 6; t < 11; ++t) logits.push_back(model(ids[{range(), range(t, t + 1)}], cache));
    return cat(logits, 1);
  };
  const Tensor whole = model(ids);
  CHECK(max_difference(in_pieces(float32), whole) < 1e-5);
  const Tensor kept = in_pieces(bfloat16);
  CHECK(kept.dtype() == float32);
  CHECK(off(kept, whole) < 0.01);
  CHECK(off(kept, whole) > 1e-6);  // so that it was bfloat16
  {
    // Under Autocast they are bfloat16 anyhow.
    const Autocast on(bfloat16);
    CHECK(same_bits(in_pieces(bfloat16), in_pieces(float32)));
    CHECK(off(in_pieces(bfloat16), model(ids)) < 0.01);
  }
  auto o = nn::GenerateOptions().max_new_tokens(5).temperature(0);
  const auto expected = nn::generate(model, {{1, 2, 3}, {4}}, o);
  o.cache_dtype(bfloat16);
  CHECK(nn::generate(model, {{1, 2, 3}, {4}}, o) == expected);
  CHECK_THROWS_WITH(model.make_cache(1, 4, int64), Catch::Contains("keys and values are bfloat16, float32 or float64"));
  nn::KVCache wide = model.make_cache(2, 16, float64);
  CHECK_THROWS_WITH(model(ids, wide), Catch::Contains("they must agree"));
}

TEST_CASE("low precision: losses under Autocast are float32", "[autocast]") {
  const Tensor narrow = tokens(6, 5).to(bfloat16) * 0.07, wide = narrow.to(float32);
  const Tensor probabilities = softmax(wide), ids = tokens(6, 1).flatten() % 5;
  const auto weighted = nn::CrossEntropyOptions().weight(tensor({0.3, 1.7, 1., 0.1, 2.})).label_smoothing(0.1);
  const auto losses = [&](const Tensor& x) {
    return std::vector<Tensor>{nn::cross_entropy(x, ids),
                               nn::cross_entropy(x, ids, weighted),
                               nn::cross_entropy(x, probabilities),
                               nn::nll_loss(x, ids),
                               nn::mse_loss(x, probabilities),
                               nn::l1_loss(x, probabilities),
                               nn::smooth_l1_loss(x, probabilities),
                               nn::huber_loss(x, probabilities),
                               nn::kl_div(x, probabilities),
                               nn::binary_cross_entropy_with_logits(x, probabilities),
                               nn::focal_loss(x, probabilities)};
  };
  const std::vector<Tensor> exact = losses(wide);
  const auto check = [&](const Tensor& x) {
    const std::vector<Tensor> given = losses(x);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      INFO("loss " << i);
      CHECK(given[i].dtype() == float32);
      CHECK(max_difference(given[i], exact[i]) < 1e-6);
    }
  };
  const Autocast on(bfloat16);
  check(narrow);
}

TEST_CASE("low precision: a Trainer under Autocast takes the steps of a loop under Autocast", "[autocast]") {
  const Tensor x = randn({24, 6}), y = randint(0, 3, {24});
  const auto train = [&](bool by_trainer) {
    manual_seed(3);
    nn::Sequential net(nn::Linear(6, 16), nn::GELU(), nn::Linear(16, 3));
    optim::SGD optimizer(net.parameters(), 0.1, 0.);
    const auto lo = data::LoaderOptions().batch_size(8);
    data::DataLoader loader(data::TensorDataset({x, y}), lo);
    const auto loss = [&](const data::Batch& b) {
      CHECK(autocast_dtype() == bfloat16);
      return nn::cross_entropy(net(b[0]), b[1]);
    };
    if (by_trainer) {
      Trainer(net, optimizer, loader, loss, TrainerOptions().steps(6).display(Display::none).autocast(bfloat16)).run();
      CHECK(autocast_dtype() == float32);
    } else {
      for (int step = 0; step < 6;)
        for (const data::Batch& b : loader) {
          optimizer.zero_grad();
          Tensor l;
          {
            const Autocast on(bfloat16);
            l = loss(b);
          }
          l.backward();
          optimizer.step();
          if (++step == 6) break;
        }
    }
    return net.parameters()[0].detach().clone();
  };
  CHECK(same_bits(train(true), train(false)));
  nn::Linear net(2, 2);
  optim::SGD optimizer(net.parameters(), 0.1, 0.);
  data::DataLoader loader(data::TensorDataset({x, y}), 8);
  const auto wrong = TrainerOptions().autocast(float64);
  CHECK_THROWS_WITH(Trainer(
                        net, optimizer, loader, [](const data::Batch&) { return ones({}); }, wrong),
                    "[Trainer] autocast is float64: it must be bfloat16, or float32 for none");
}

TEST_CASE("low precision: a step of a GPT keeps less under Autocast", "[autocast]") {
  nn::GPTOptions o = small_options();
  o.vocab_size(64).context_length(64).d_model(128);
  const nn::GPT model(o);
  const Tensor ids = randint(0, 64, {8, 65});
  const auto kept = [&] {
    const std::int64_t before = memory_stats().live_bytes;
    const Tensor loss = loss_of(model, ids);
    return memory_stats().live_bytes - before;
  };
  const std::int64_t plain = kept();
  const Autocast on(bfloat16);
  CHECK(static_cast<double>(kept()) < 0.65 * static_cast<double>(plain));
}

TEST_CASE("low precision: BF16 and F16 in files", "[bfloat16]") {
  const Directory folder;
  const std::string path = folder.file("model.safetensors");
  const Tensor narrow = randn({3, 5}, bfloat16), wide = randn({7}), whole = tensor({1, 2, 3});
  save_safetensors(path, {{"narrow", narrow}, {"wide", wide}, {"whole", whole}});
  const StateDict kept = load_safetensors(path, keep_bfloat16).tensors, widened = load_safetensors(path).tensors;
  CHECK(same_bits(at(kept, "narrow"), narrow));
  CHECK(same_bits(at(kept, "wide"), wide));
  CHECK(same_bits(at(widened, "narrow"), narrow.to(float32)));
  CHECK(same_bits(at(widened, "whole"), whole));

  std::vector<double> numbers{0,           -0.0,
                              1,           -2.5,
                              65504,       65519.99,
                              65520,       1e9,
                              -INFINITY,   0x1p-14,
                              0x1p-24,     0x1p-25,
                              0x1.8p-25,   0x1.00000001p-25,
                              0x1p-30,     1 + 0x1p-11,
                              1 + 0x3p-11, 1 + 0x1p-11 + 0x1p-40,
                              0x1.ffcp-15, 3.14159};
  const std::vector<double> halves{0,        -0.0,      1,          -2.5,        65504,   65504,   INFINITY,
                                   INFINITY, -INFINITY, 0x1p-14,    0x1p-24,     0,       0x1p-24, 0x1p-24,
                                   0,        1,         1 + 0x1p-9, 1 + 0x1p-10, 0x1p-14, 3.140625};
  const auto n = static_cast<std::int64_t>(numbers.size());
  save_safetensors(path, {{"x", tensor(numbers, {n})}, {"narrow", narrow}, {"whole", whole}}, {}, FloatsAs::f16);
  const StateDict back = load_safetensors(path).tensors;
  CHECK(at(back, "x").dtype() == float32);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    INFO(numbers[i]);
    const double v = values(at(back, "x"))[i];
    CHECK(v == halves[i]);
    CHECK(std::signbit(v) == std::signbit(halves[i]));
  }
  CHECK(max_difference(at(back, "narrow"), narrow) < 1e-7);  // 7 fraction bits are among 10
  CHECK(same_bits(at(back, "whole"), whole));
}

}  // namespace fit::test::low_precision_test
