#include "fit/nn/loss.hpp"

#include <cmath>

#include "fit/gradcheck.hpp"
#include "fit/ops.hpp"
#include "support/catch.hpp"

using namespace fit;
using Catch::Contains;
using nn::Reduction;

TEST_CASE("mean squared error") {
  const Tensor x = tensor({{1., 2.}, {3., 4.}}).requires_grad_(), y = tensor({{1., 0.}, {0., 3.}});
  CHECK(nn::mse_loss(x, y).item() == 3.5);
  CHECK(nn::mse_loss(x, y, Reduction::sum).item() == 14);
  CHECK(nn::mse_loss(x, y, Reduction::none).detach().to_vector<float>() == std::vector<float>{0, 4, 9, 1});
  nn::MSELoss()(x, y).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 1, 1.5, .5});
  CHECK(nn::mse_loss(zeros({0, 2}), zeros({0, 2}), Reduction::sum).item() == 0);
  CHECK(std::isnan(nn::mse_loss(zeros({0, 2}), zeros({0, 2})).item()));
  CHECK_THROWS_WITH(nn::mse_loss(zeros({3}), zeros({3, 1})),
                    "[mse_loss] input is [3], target is [3, 1]: they must be equal");
  CHECK_THROWS_WITH(nn::mse_loss(zeros({3}, int64), zeros({3})), Contains("input is int64"));
  CHECK(nn::MSELoss(Reduction::sum).str() == "MSELoss(reduction=sum)");
}

TEST_CASE("cross entropy is -ln of the target's probability") {
  const Tensor x = tensor({{1., 2., 3.}, {0., 0., 0.}}, float64).requires_grad_();
  const double first = std::log(std::exp(-1.) + 1 + std::exp(1.)), second = std::log(3.);
  const Tensor targets = tensor({1, 2});
  CHECK(nn::cross_entropy(x, targets).item() == Approx((first + second) / 2).epsilon(1e-12));
  CHECK(nn::cross_entropy(x, targets, {-100, Reduction::sum}).item() == Approx(first + second).epsilon(1e-12));
  const Tensor rows = nn::cross_entropy(x, targets, {-100, Reduction::none});
  CHECK(rows.shape() == Shape{2});
  CHECK(rows.data<double>()[0] == Approx(first).epsilon(1e-12));
  nn::cross_entropy(x, targets).backward();
  const auto g = x.grad().data<double>();
  CHECK(g[1] == Approx((std::exp(-first) - 1) / 2).epsilon(1e-12));
  CHECK(g[3] == Approx(1. / 6).epsilon(1e-12));
  CHECK(g[5] == Approx(-1. / 3).epsilon(1e-12));
}

TEST_CASE("cross entropy has its classes on the last axis, whatever the rank") {
  manual_seed(1);
  const Tensor x = randn({2, 3, 5}), targets = randint(0, 5, {2, 3});
  const Tensor flat = nn::cross_entropy(reshape(x, {6, 5}), reshape(targets, {6}));
  CHECK(nn::cross_entropy(x, targets).item() == flat.item());
  CHECK(nn::cross_entropy(x, targets, {-100, Reduction::none}).shape() == Shape{2, 3});
  CHECK(nn::cross_entropy(tensor({0., 0.}), tensor(1)).item() == Approx(std::log(2.)));
  CHECK_THROWS_WITH(
      nn::cross_entropy(randn({2, 5, 3}), targets),
      "[cross_entropy] logits are [2, 5, 3], targets [2, 3]: they must be [..., C] and [...], the classes "
      "on the last axis");
  CHECK_THROWS_WITH(nn::cross_entropy(tensor(1.), tensor(1)), Contains("logits are []"));
}

TEST_CASE("ignored targets count for nothing, and all of them ignored give 0") {
  const Tensor x = tensor({{1., 2., 3.}, {9., 0., 0.}, {0., 0., 0.}}, float64).requires_grad_();
  const double first = std::log(std::exp(-1.) + 1 + std::exp(1.)), third = std::log(3.);
  CHECK(nn::cross_entropy(x, tensor({1, -100, 2})).item() == Approx((first + third) / 2).epsilon(1e-12));
  nn::CrossEntropyOptions zero;
  zero.ignore_index = 0;
  const Tensor none = nn::cross_entropy(x, tensor({0, 0, 0}), zero);
  CHECK(none.item() == 0);
  none.backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>(9, 0));
  CHECK(nn::cross_entropy(zeros({0, 3}), Tensor::empty({0}, int64)).item() == 0);
}

TEST_CASE("cross entropy of large logits, and what it refuses") {
  const Tensor large = tensor({{1e4, -1e4}}).requires_grad_();
  CHECK(nn::cross_entropy(large, tensor({0})).item() == 0);
  CHECK(nn::cross_entropy(large, tensor({1})).item() == 2e4);
  CHECK_THROWS_AS(nn::cross_entropy(large, tensor({2})), Error);
  CHECK_THROWS_AS(nn::cross_entropy(large, tensor({-1})), Error);
  CHECK_THROWS_WITH(nn::cross_entropy(large, tensor({1.})), Contains("targets is float32"));
  CHECK_THROWS_WITH(nn::cross_entropy(tensor({{1, 2}}), tensor({0})), Contains("logits is int64"));
  CHECK(nn::CrossEntropyLoss().str() == "CrossEntropyLoss(ignore_index=-100, reduction=mean)");
}

TEST_CASE("derivatives of the losses") {
  manual_seed(2);
  const Tensor targets = tensor({{0, 3, -100}, {2, 2, 1}});
  const auto check = [](const TensorFunction& f, const std::vector<Tensor>& in) {
    GradCheckOptions options;
    options.order = 2;
    const GradReport report = check_gradients(f, in, options);
    INFO(report);
    CHECK(report.ok);
  };
  for (const Reduction r : {Reduction::none, Reduction::mean, Reduction::sum}) {
    check([r](const auto& in) { return nn::mse_loss(in[0], in[1], r); },
          {randn({3, 4}, float64), randn({3, 4}, float64)});
    check([&](const auto& in) { return nn::cross_entropy(in[0], targets, {-100, r}); }, {randn({2, 3, 4}, float64)});
  }
}
