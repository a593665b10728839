#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"

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

}  // namespace fit::test::gradient_accumulation_test
