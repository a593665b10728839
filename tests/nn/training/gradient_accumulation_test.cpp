#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/variants.hpp"

namespace fit::test::gradient_accumulation_test {

TEST_CASE("a large batch in parts gives the gradient of the whole") {
  manual_seed(3);
  nn::Sequential net(nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 2));
  net.to(float64);
  const Tensor x = randn({6, 3}, float64), y = randn({6, 2}, float64);
  const auto gradients = [&] {
    std::vector<Tensor> all;
    for (const Tensor& p : net.parameters()) all.push_back(p.grad().clone());
    net.zero_grad();
    return all;
  };
  nn::mse_loss(net(x), y).backward();
  const auto whole = gradients();
  for (int part = 0; part < 3; ++part)
    (nn::mse_loss(net(slice(x, 0, 2 * part, 2 * part + 2)), slice(y, 0, 2 * part, 2 * part + 2)) / 3).backward();
  const auto parts = gradients();
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(allclose(parts[i], whole[i], 1e-12, 1e-14));
}

TEST_CASE("training in parts is training on the whole, with clipping and ignored targets") {
  const auto train = [](int parts) {
    manual_seed(3);
    nn::Sequential net(nn::Linear(3, 8), nn::Tanh(), nn::Linear(8, 4));
    net.to(float64);
    optim::AdamW optimizer(net.named_parameters(), 0.05);
    Generator random(5);
    for (int step = 0; step < 5; ++step) {
      const Tensor x = randn({12, 3}, float64, random), y = randint(-1, 4, {12}, random);  // -1: ignored
      const double counted = sum(y >= 0).item();
      const std::int64_t size = 12 / parts;
      optimizer.zero_grad();
      for (int part = 0; part < parts; ++part) {
        const auto of = [&](const Tensor& all) { return slice(all, 0, part * size, (part + 1) * size); };
        (nn::cross_entropy(net(of(x)), of(y),
                           nn::CrossEntropyOptions().ignore_index(-1).reduction(nn::Reduction::sum)) /
         counted)
            .backward();
      }
      optim::clip_grad_norm_(net.parameters(), 0.1);
      optimizer.step();
    }
    return cat({flatten(net.parameters()[0].detach()), flatten(net.parameters()[2].detach())});
  };
  for (const int parts : {2, 3, 12}) CHECK(allclose(train(parts), train(1), 1e-9, 1e-11));
}

// Its token table is also its output layer, and its norms and biases get one gradient each.
TEST_CASE("accumulated gradients are the sum of each batch's own, bit for bit") {
  manual_seed(3);
  nn::GPT gpt(nn::GPTOptions().vocab_size(11).context_length(8).num_layers(2).num_heads(2).d_model(16).dropout(0));
  const Tensor ids = randint(0, 11, {9, 9});
  const auto add_gradients_of = [&](std::int64_t part) {
    const Tensor own = slice(ids, 0, 3 * part, 3 * part + 3);
    gpt.loss(slice(own, 1, 0, 8), slice(own, 1, 1, 9)).backward();
  };
  each_isa([&] {
    gpt.zero_grad();
    for (int part = 0; part < 3; ++part) add_gradients_of(part);
    std::vector<Tensor> accumulated, sums;
    for (const Tensor& p : gpt.parameters()) accumulated.push_back(p.grad());
    for (int part = 0; part < 3; ++part) {
      gpt.zero_grad();
      add_gradients_of(part);
      std::size_t i = 0;
      for (const Tensor& p : gpt.parameters())
        if (part == 0)
          sums.push_back(p.grad());
        else
          sums[i++].add_(p.grad());
    }
    for (std::size_t i = 0; i < sums.size(); ++i) CHECK(equal(sums[i], accumulated[i]));
  });
}

}  // namespace fit::test::gradient_accumulation_test
