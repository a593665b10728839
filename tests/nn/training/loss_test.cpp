#include "fit/nn/loss/loss.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "fit/backward/gradcheck.hpp"
#include "fit/detail/function_ref.hpp"
#include "fit/ops/ops.hpp"
#include "nn/layers/layer_table.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/text.hpp"
#include "support/variants.hpp"

using namespace fit;
using Catch::Contains;
using nn::Reduction;

TEST_CASE("classes may lie on another axis, as in PyTorch") {
  Generator g(6);
  const Tensor x = randn({2, 4, 4}, float64, g), ids = tensor({{0, 3, 1, 2}, {2, 2, 0, -100}});  // [N, C, T], C = T
  const Tensor last = permute(x, {0, 2, 1}), soft = softmax(randn({2, 4, 4}, float64, g), 1);
  for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const auto with = [&](int axis) {
      return nn::CrossEntropyOptions().reduction(r).class_axis(axis).label_smoothing(0.1);
    };
    CHECK(test::same_bits(nn::cross_entropy(x, ids, with(1)), nn::cross_entropy(last, ids, with(-1))));
    CHECK(test::same_bits(nn::cross_entropy(last, ids, with(2)), nn::cross_entropy(last, ids, with(-1))));
    CHECK(test::same_bits(nn::cross_entropy(x, soft, with(1)),
                          nn::cross_entropy(last, permute(soft, {0, 2, 1}), with(-1))));
    const auto nll = [&](int axis) { return nn::NLLOptions().reduction(r).class_axis(axis); };
    CHECK(test::same_bits(nn::nll_loss(x, ids, nll(1)), nn::nll_loss(last, ids, nll(-1))));
  }
  CHECK(nn::cross_entropy(x, ids).item() != nn::cross_entropy(last, ids).item());
  CHECK_THROWS_WITH(nn::cross_entropy(x, ids, nn::CrossEntropyOptions().class_axis(3)),
                    Contains("axis 3 is out of range"));
  CHECK_THROWS_WITH(nn::cross_entropy(zeros({2, 4, 5}), zeros({2, 5}, int64)),
                    Contains("class_axis = 1 takes PyTorch's"));
}

TEST_CASE("binary targets outside 0 … 1 are refused") {
  const Tensor x = tensor({0.25, 0.5});
  for (const double bad : {-1., 2., 1.0001, double(NAN), double(INFINITY)}) {
    const Tensor y = tensor({1., bad});
    CHECK_THROWS_WITH(nn::binary_cross_entropy(x, y), Contains("[binary_cross_entropy] target has numbers outside 0"));
    CHECK_THROWS_WITH(nn::binary_cross_entropy_with_logits(x, y), Contains("target has numbers outside 0 … 1"));
    CHECK_THROWS_WITH(nn::focal_loss(x, y), Contains("target has numbers outside 0 … 1"));
  }
  CHECK_THROWS_WITH(nn::binary_cross_entropy_with_logits(x, tensor({0, 2})), Contains("outside 0 … 1"));
  CHECK_NOTHROW(nn::binary_cross_entropy_with_logits(x, tensor({0., 1.})));
  CHECK_THROWS_WITH(nn::focal_loss(x, tensor({0., 1.}), nn::FocalOptions().gamma(1e300)), Contains("finite"));
  CHECK_THROWS_WITH(nn::smooth_l1_loss(x, x, nn::SmoothL1Options().beta(1e-300)), Contains("beta is 1e-300"));
}

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

TEST_CASE("distances of several blocks are their formulas, with the same bits with any number of threads") {
  Tensor x = (randn({3, 1367}) * 2.).detach().requires_grad_(), t = (randn({3, 1367}) * 2.).detach().requires_grad_();
  const auto huber = [](const Tensor& x, const Tensor& t, double bound) {
    const Tensor d = abs(x - t);
    return mean(where(d < bound, d * d / 2., (d - bound / 2) * bound));
  };
  const std::pair<std::function<Tensor(const Tensor&, const Tensor&)>,
                  std::function<Tensor(const Tensor&, const Tensor&)>>
      all[] = {{[](auto& x, auto& t) { return nn::mse_loss(x, t); },
                [](auto& x, auto& t) { return mean((x - t) * (x - t)); }},
               {[](auto& x, auto& t) { return nn::mse_loss(x, t, Reduction::sum); },
                [](auto& x, auto& t) { return sum((x - t) * (x - t)); }},
               {[](auto& x, auto& t) { return nn::huber_loss(x, t, nn::HuberOptions().delta(1.5)); },
                [&](auto& x, auto& t) { return huber(x, t, 1.5); }},
               {[](auto& x, auto& t) { return nn::smooth_l1_loss(x, t, nn::SmoothL1Options().beta(0.7)); },
                [&](auto& x, auto& t) { return huber(x, t, 0.7) / 0.7; }}};
  for (const auto& [loss, formula] : all) {
    const auto of = [](const auto& f, Tensor x, Tensor t) {
      const Tensor y = f(x, t);
      const std::vector<Tensor> g = grad(y, std::vector<Tensor>{x, t});
      return cat({reshape(y.detach(), {1}), flatten(g[0]), flatten(g[1])});
    };
    Tensor exact_x = x.detach().to(float64).requires_grad_(), exact_t = t.detach().to(float64).requires_grad_();
    const Tensor here = of(loss, x, t), exact = of(formula, exact_x, exact_t);
    CHECK(allclose(here.to(float64), exact, 1e-6, 1e-9));
    test::check_threads([&, &loss = loss] { return of(loss, x, t); });
  }
}

TEST_CASE("cross entropy is -ln of the target's probability") {
  const Tensor x = tensor({{1., 2., 3.}, {0., 0., 0.}}, float64).requires_grad_();
  const double first = std::log(std::exp(-1.) + 1 + std::exp(1.)), second = std::log(3.);
  const Tensor targets = tensor({1, 2});
  CHECK(nn::cross_entropy(x, targets).item() == Approx((first + second) / 2).epsilon(1e-12));
  CHECK(nn::cross_entropy(x, targets, nn::CrossEntropyOptions().reduction(Reduction::sum)).item() ==
        Approx(first + second).epsilon(1e-12));
  const Tensor rows = nn::cross_entropy(x, targets, nn::CrossEntropyOptions().reduction(Reduction::none));
  CHECK(rows.shape() == Shape{2});
  CHECK(rows.data<double>()[0] == Approx(first).epsilon(1e-12));
  nn::cross_entropy(x, targets).backward();
  const std::vector<double> g = x.grad().to_vector<double>();
  CHECK(g[1] == Approx((std::exp(-first) - 1) / 2).epsilon(1e-12));
  CHECK(g[3] == Approx(1. / 6).epsilon(1e-12));
  CHECK(g[5] == Approx(-1. / 3).epsilon(1e-12));
}

TEST_CASE("cross entropy has its classes on the last axis, whatever the rank") {
  manual_seed(1);
  const Tensor x = randn({2, 3, 5}), targets = randint(0, 5, {2, 3});
  const Tensor flat = nn::cross_entropy(reshape(x, {6, 5}), reshape(targets, {6}));
  CHECK(nn::cross_entropy(x, targets).item() == flat.item());
  CHECK(nn::cross_entropy(x, targets, nn::CrossEntropyOptions().reduction(Reduction::none)).shape() == Shape{2, 3});
  CHECK(nn::cross_entropy(tensor({0., 0.}), tensor(1)).item() == Approx(std::log(2.)));
  CHECK_THROWS_WITH(
      nn::cross_entropy(randn({2, 5, 3}), targets),
      "[cross_entropy] logits are [2, 5, 3], targets [2, 3]: they must be [..., C] and [...], the classes "
      "on the last axis (class_axis = 1 takes PyTorch's [N, C, ...] and [N, ...])");
  CHECK_THROWS_WITH(nn::cross_entropy(tensor(1.), tensor(1)), Contains("logits are []"));
}

TEST_CASE("ignored targets count for nothing, and all of them ignored give 0") {
  const Tensor x = tensor({{1., 2., 3.}, {9., 0., 0.}, {0., 0., 0.}}, float64).requires_grad_();
  const double first = std::log(std::exp(-1.) + 1 + std::exp(1.)), third = std::log(3.);
  CHECK(nn::cross_entropy(x, tensor({1, -100, 2})).item() == Approx((first + third) / 2).epsilon(1e-12));
  const auto zero = nn::CrossEntropyOptions().ignore_index(0);
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
  CHECK_THROWS_WITH(nn::cross_entropy(large, tensor({2})),
                    "[cross_entropy] targets[0] is 2: it must be in 0 … 1, or ignore_index (-100)");
  CHECK_THROWS_WITH(nn::cross_entropy(large, tensor({-1})), Contains("targets[0] is -1"));
  CHECK_THROWS_WITH(nn::cross_entropy(large, tensor({1.})), Contains("targets is float32"));
  CHECK_THROWS_WITH(nn::cross_entropy(tensor({{1, 2}}), tensor({0})), Contains("logits is int64"));
  CHECK(nn::CrossEntropyLoss().str() == "CrossEntropyLoss(ignore_index=-100, label_smoothing=0, reduction=mean)");
}

namespace {

// The elements of a tensor's gradient after loss.backward().
std::vector<double> gradient(const Tensor& x, const Tensor& loss) {
  loss.backward();
  return test::values(x.grad());
}

}  // namespace

TEST_CASE("cross entropy with weights, smoothing and probabilities") {
  const Tensor x = tensor({{1., 2., 3.}, {0., 0., 0.}}, float64);
  const double first = std::log(std::exp(-1.) + 1 + std::exp(1.)), third = std::log(3.);
  auto weighted = nn::CrossEntropyOptions().weight(tensor({1., 2., 4.}));
  const Tensor ids = tensor({1, 2});
  CHECK(nn::cross_entropy(x, ids, weighted).item() == Approx((2 * first + 4 * third) / 6).epsilon(1e-12));
  auto smooth = nn::CrossEntropyOptions().label_smoothing(0.3).reduction(Reduction::none);
  const std::vector<double> rows = test::values(nn::cross_entropy(x, ids, smooth));
  CHECK(rows[0] == Approx(0.7 * first + 0.1 * ((first + 1) + first + (first - 1))).epsilon(1e-12));
  CHECK(rows[1] == Approx(third).epsilon(1e-12));
  smooth.reduction(Reduction::mean).weight(weighted.weight());
  const Tensor hot = one_hot(ids, 3, float64);
  CHECK(nn::cross_entropy(x, hot).item() == Approx(nn::cross_entropy(x, ids).item()).epsilon(1e-12));
  CHECK(nn::cross_entropy(zeros({0, 3}), zeros({0, 3})).item() == 0);

  weighted.weight(tensor({1., 0., 0.}));  // none that counts
  const Tensor leaf = x.clone().requires_grad_();
  const Tensor nothing = nn::cross_entropy(leaf, ids, weighted);
  CHECK(nothing.item() == 0);
  CHECK(gradient(leaf, nothing) == std::vector<double>(6, 0));
  const Tensor other = x.clone().requires_grad_();
  const Tensor ignored = nn::cross_entropy(other, tensor({-100, -100}), smooth);
  CHECK(ignored.item() == 0);
  CHECK(gradient(other, ignored) == std::vector<double>(6, 0));

  weighted.label_smoothing(0.1);  // which the other classes have a share in
  const Tensor third_leaf = x.clone().requires_grad_();
  const Tensor unweighted = nn::cross_entropy(third_leaf, ids, weighted);
  CHECK(unweighted.item() == 0);
  CHECK(gradient(third_leaf, unweighted) == std::vector<double>(6, 0));

  smooth.ignore_index(1);
  CHECK_THROWS_WITH(nn::cross_entropy(x, hot, smooth), Contains("ignore_index is 1"));
  smooth.label_smoothing(1.5);
  CHECK_THROWS_WITH(nn::cross_entropy(x, ids, smooth), Contains("[cross_entropy] label_smoothing is 1.5"));
  weighted.weight(ones({2}));
  CHECK_THROWS_WITH(nn::cross_entropy(x, ids, weighted), Contains("weight has shape [2]: it must be [3]"));
  CHECK_THROWS_WITH(nn::cross_entropy(x, ids.to(float32)), Contains("probabilities must have the logits' shape"));
  CHECK_THROWS_WITH(nn::cross_entropy(zeros({2, 3}), zeros({2, 3}, int64)),
                    Contains("targets is int64 [2, 3]") && Contains("one-hot rows are floating"));
  CHECK_THROWS_WITH(nn::cross_entropy(zeros({2, 3, 4}), tensor({{0, 1, 2}, {3, 4, 0}})),
                    Contains("targets[1, 1] is 4: it must be in 0 … 3"));
}

TEST_CASE("an ignored row has gradient 0, whatever its logits") {
  for (const double bad : {NAN, INFINITY, -INFINITY})
    for (const double smoothing : {0., 0.1}) {
      const Tensor x = tensor({{1., 1.}, {bad, bad}}).requires_grad_();
      const auto options = nn::CrossEntropyOptions().label_smoothing(smoothing);
      const std::vector<double> g = gradient(x, nn::cross_entropy(x, tensor({0, -100}), options));
      CHECK(g[0] == Approx(smoothing / 2 - 0.5));
      CHECK((g[2] == 0 && g[3] == 0));
    }
}

TEST_CASE("negative log likelihood is cross entropy after log_softmax") {
  manual_seed(3);
  const Tensor x = randn({2, 3, 5}, float64), ids = tensor({{0, 4, -100}, {2, 2, 1}});
  CHECK(nn::nll_loss(log_softmax(x), ids).item() == Approx(nn::cross_entropy(x, ids).item()).epsilon(1e-12));
  const Tensor leaf = x.clone().requires_grad_();
  const Tensor none = nn::nll_loss(leaf, full({2, 3}, -100, int64));
  CHECK(none.item() == 0);
  CHECK(gradient(leaf, none) == std::vector<double>(30, 0));
  CHECK(nn::nll_loss(zeros({0, 3}), Tensor::empty({0}, int64)).item() == 0);
  CHECK_THROWS_WITH(nn::nll_loss(zeros({2, 3}), tensor({0, 3})),
                    "[nll_loss] targets[1] is 3: it must be in 0 … 2, or ignore_index (-100)");
  CHECK_THROWS_WITH(nn::nll_loss(zeros({2, 3}), tensor({0, -1})), Contains("targets[1] is -1"));
  CHECK_THROWS_WITH(nn::nll_loss(zeros({2, 3}), zeros({2})), Contains("targets is float32"));
  CHECK_THROWS_WITH(nn::nll_loss(zeros({2, 3}), tensor({0})), Contains("inputs are [2, 3], targets [1]"));
}

TEST_CASE("binary cross entropy of sure predictions") {
  const Tensor p = tensor({0., 1., 0., 1.}).requires_grad_(), y = tensor({0., 1., 1., 0.});
  auto each = nn::BCEOptions().reduction(Reduction::none);
  CHECK(test::values(nn::binary_cross_entropy(p, y, each)) == std::vector<double>{0, 0, 100, 100});
  for (const double g : gradient(p, nn::binary_cross_entropy(p, y))) CHECK(std::isfinite(g));
  CHECK(p.grad().to_vector<float>()[2] < -1e11);  // a wrong one is not given up
  const Tensor x = tensor({0., 1., 0.25, 0.75}, float64).requires_grad_(), t = tensor({0., 1., 1., 0.5}, float64);
  const auto curvature = [&](const Tensor& target) {
    const Tensor loss = nn::binary_cross_entropy(x, target, nn::BCEOptions().reduction(Reduction::sum));
    return grad(sum(grad(loss, x, create_graph)), x);
  };
  const Tensor second = tensor({0., 0., 16., 8.8888888888888893}, float64);  // PyTorch 2.13
  CHECK(test::max_difference(curvature(t), second) < 1e-12);
  CHECK(test::max_difference(curvature(t.clone().requires_grad_()), second) < 1e-12);
  const Tensor trained = t.clone().requires_grad_();
  const Tensor of_target = grad(sum(nn::binary_cross_entropy(x, trained, each)), trained, create_graph);
  CHECK(all(isfinite(grad(sum(of_target), x))).item<bool>());
  CHECK_THROWS_WITH(nn::binary_cross_entropy(tensor({1.5}), tensor({1.})),
                    Contains("[binary_cross_entropy] input has numbers outside 0 … 1"));
  CHECK_THROWS_AS(nn::binary_cross_entropy(tensor({NAN}), tensor({1.})), Error);
  CHECK_THROWS_WITH(nn::binary_cross_entropy(p.detach(), zeros({4, 1})), Contains("they must be equal"));
  each.weight(ones({3}));
  CHECK_THROWS_AS(nn::binary_cross_entropy(p.detach(), y, each), Error);
  each.weight(ones({2, 4}));
  CHECK_THROWS_WITH(nn::binary_cross_entropy(p.detach(), y, each), Contains("weight has shape [2, 4]"));
}

TEST_CASE("losses of logits of 1e4 are finite, and so are their gradients") {
  const Tensor y = tensor({0., 1., 0., 1.}, float32);
  const auto logits = [] { return tensor({-1e4, -1e4, 1e4, 1e4}, float32).requires_grad_(); };
  const auto finite = [](const std::vector<double>& g) {
    return std::all_of(g.begin(), g.end(), [](double v) { return std::isfinite(v); });
  };
  Tensor x = logits();
  CHECK(test::values(nn::binary_cross_entropy_with_logits(
            x, y, nn::BCEWithLogitsOptions().reduction(Reduction::none))) == std::vector<double>{0, 1e4, 1e4, 0});
  CHECK(gradient(x, nn::binary_cross_entropy_with_logits(x, y)) == std::vector<double>{0, -.25, .25, 0});
  for (const double gamma : {0., 0.5, 1., 2.}) {
    x = logits();
    const Tensor loss = nn::focal_loss(x, y, nn::FocalOptions().alpha(0.25).gamma(gamma).reduction(Reduction::sum));
    CHECK(loss.item() == Approx(1e4));
    CHECK(finite(gradient(x, loss)));
  }
  x = logits();
  const Tensor soft = nn::cross_entropy(reshape(x, {2, 2}), reshape(y, {2, 2}));
  CHECK(soft.item() == Approx(std::log(2.)));
  CHECK(finite(gradient(x, soft)));
  const auto smooth = nn::CrossEntropyOptions().label_smoothing(0.1);
  x = tensor({{1e4, -1e4}}).requires_grad_();
  const Tensor smoothed = nn::cross_entropy(x, tensor({0}), smooth);
  CHECK(smoothed.item() == Approx(0.05 * 2e4));
  CHECK(finite(gradient(x, smoothed)));
  // Far from the edge nothing is lost: ln(1 + e^-40) is e^-40.
  CHECK(nn::binary_cross_entropy_with_logits(tensor({-40.}), tensor({0.})).item() == Approx(std::exp(-40.)));
}

TEST_CASE("focal loss is its paper's formula") {
  const double p = 1 / (1 + std::exp(-0.7));
  const Tensor x = tensor({0.7, 0.7}, float64), y = tensor({1., 0.}, float64);
  CHECK(nn::focal_loss(x, y, nn::FocalOptions().alpha(0.3).gamma(1.5).reduction(Reduction::sum)).item() ==
        Approx(-0.3 * std::pow(1 - p, 1.5) * std::log(p) - 0.7 * std::pow(p, 1.5) * std::log(1 - p)).epsilon(1e-12));
  CHECK(nn::focal_loss(x, y, nn::FocalOptions().alpha(-1).gamma(0)).item() ==
        Approx(nn::binary_cross_entropy_with_logits(x, y).item()).epsilon(1e-12));
  CHECK_THROWS_WITH(nn::focal_loss(x, y, nn::FocalOptions().alpha(0.25).gamma(-1)),
                    Contains("[focal_loss] gamma is -1"));
  CHECK_THROWS_WITH(nn::focal_loss(x, y, nn::FocalOptions().alpha(2)), Contains("alpha is 2"));
}

TEST_CASE("distances") {
  const Tensor x = tensor({0., 0.5, -3.}), zero = zeros({3});
  CHECK(test::values(nn::l1_loss(x, zero, Reduction::none)) == std::vector<double>{0, .5, 3});
  CHECK(test::values(nn::huber_loss(x, zero, nn::HuberOptions().delta(2).reduction(Reduction::none))) ==
        std::vector<double>{0, .125, 4});
  CHECK(test::values(nn::smooth_l1_loss(x, zero, nn::SmoothL1Options().beta(2).reduction(Reduction::none))) ==
        std::vector<double>{0, .0625, 2});
  CHECK(nn::smooth_l1_loss(x, zero, nn::SmoothL1Options().beta(0)).item() == nn::l1_loss(x, zero).item());
  CHECK_THROWS_WITH(nn::l1_loss(x, zeros({3, 1})), Contains("[l1_loss] input is [3], target is [3, 1]"));
  CHECK_THROWS_WITH(nn::huber_loss(x, zero, nn::HuberOptions().delta(0)), Contains("delta is 0"));
  CHECK_THROWS_WITH(nn::smooth_l1_loss(x, zero, nn::SmoothL1Options().beta(-1)), Contains("beta is -1"));
  CHECK(nn::l1_loss(zeros({0}), zeros({0}), Reduction::sum).item() == 0);

  const Tensor p = tensor({0., 0.25, 0.75}).requires_grad_(), q = log(tensor({0.5, 0.25, 0.25}));
  CHECK(nn::kl_div(q, p, nn::KLDivOptions().log_target(false).reduction(Reduction::sum)).item() ==
        Approx(0.75 * std::log(3.)));
  CHECK(gradient(p, nn::kl_div(q, p, nn::KLDivOptions().log_target(false).reduction(Reduction::sum)))[0] ==
        Approx(std::log(2.)));  // not NaN
  CHECK_THROWS_WITH(nn::kl_div(q, zeros({3, 3})), Contains("[kl_div]"));
  for (const DType t : {boolean, int64}) {
    const Tensor hot = eq(arange(p.numel()), 0).reshape(p.shape());
    CHECK(equal(nn::kl_div(q, hot.to(t)), nn::kl_div(q, hot.to(q.dtype()))));
  }

  const Tensor a = tensor({{1., 0.}, {1., 0.}, {1., 0.}}), b = tensor({{1., 1.}, {1., 1.}, {-1., 0.}});
  const std::vector<double> c = test::values(nn::cosine_embedding_loss(
      a, b, tensor({1, -1, -1}), nn::CosineEmbeddingOptions().margin(0.5).reduction(Reduction::none)));
  CHECK(c[0] == Approx(1 - std::sqrt(0.5)));
  CHECK(c[1] == Approx(std::sqrt(0.5) - 0.5));
  CHECK(c[2] == 0);
  CHECK(nn::cosine_embedding_loss(zeros({2}), zeros({2}), tensor(1)).item() == 1);
  CHECK_THROWS_WITH(nn::cosine_embedding_loss(a, b, tensor({1, 0, 1})), Contains("target has other numbers than 1"));
  CHECK_THROWS_WITH(nn::cosine_embedding_loss(a, b, tensor({1, 1})), Contains("a is [3, 2], b [3, 2], target [2]"));
}

TEST_CASE("the variance of a Gaussian loss") {
  const Tensor x = tensor({{1., 2.}, {3., 4.}}), y = zeros({2, 2}), var = tensor({0.5, 2.});
  const auto each = nn::GaussianNLLOptions().reduction(Reduction::none);
  CHECK(equal(nn::gaussian_nll_loss(x, y, var, each), nn::gaussian_nll_loss(x, y, reshape(var, {2, 1}), each)));
  CHECK(nn::gaussian_nll_loss(x, y, var, each)[{1, 0}].item() == Approx((std::log(2.) + 4.5) / 2));
  CHECK_THROWS_WITH(nn::gaussian_nll_loss(x, y, ones({3})), Contains("input is [2, 2], var [3]: var must have this"));
  CHECK_THROWS_WITH(nn::gaussian_nll_loss(x, y, -var), Contains("var has negative numbers"));
  CHECK_THROWS_WITH(nn::gaussian_nll_loss(x, y, var, nn::GaussianNLLOptions().eps(0)), Contains("eps is 0"));
  CHECK(nn::GaussianNLLLoss().str() == "GaussianNLLLoss(full=false, eps=1e-06, reduction=mean)");
}

TEST_CASE("losses as layers hold their options") {
  CHECK(nn::NLLLoss(nn::NLLOptions().ignore_index(-1)).str() == "NLLLoss(ignore_index=-1, reduction=mean)");
  CHECK(nn::BCEWithLogitsLoss(nn::BCEWithLogitsOptions().pos_weight(ones({3}))).str() ==
        "BCEWithLogitsLoss(pos_weight=[3], reduction=mean)");
  CHECK(nn::FocalLoss().str() == "FocalLoss(alpha=0.25, gamma=2, reduction=mean)");
  CHECK(nn::HuberLoss(nn::HuberOptions().delta(0.5).reduction(Reduction::sum)).str() ==
        "HuberLoss(delta=0.5, reduction=sum)");
  CHECK(nn::SmoothL1Loss(nn::SmoothL1Options().beta(0.5)).str() == "SmoothL1Loss(beta=0.5, reduction=mean)");
  CHECK(nn::KLDivLoss(nn::KLDivOptions().log_target()).str() == "KLDivLoss(log_target=true, reduction=mean)");
  CHECK(nn::L1Loss(Reduction::none).str() == "L1Loss(reduction=none)");
  CHECK(nn::CosineEmbeddingLoss(nn::CosineEmbeddingOptions().margin(0.5)).str() ==
        "CosineEmbeddingLoss(margin=0.5, reduction=mean)");
  const Tensor x = tensor({1., 4.}), zero = zeros({2});

  // Weights are saved with the loss, and follow what it is loaded with and converted to.
  nn::CrossEntropyLoss weighted(
      nn::CrossEntropyOptions().reduction(Reduction::mean).label_smoothing(0).weight(tensor({1., 2.})));
  CHECK(weighted.state_dict()[0].first == "weight");
  CHECK(weighted.parameters().empty());
  CHECK(nn::CrossEntropyLoss().state_dict().empty());
  const auto copy = nn::clone(weighted);
  weighted.load_state_dict({{"weight", tensor({3., 0.})}});
  weighted.to(float64);
  const Tensor logits = tensor({{0., 1.}, {2., 0.}}), ids = tensor({0, 1});
  CHECK(weighted(logits, ids).item() == Approx(std::log(1 + std::exp(1.))));
  CHECK(weighted.options().weight().dtype() == float64);
  CHECK((*copy)(logits, ids).item() != weighted(logits, ids).item());
  nn::BCEWithLogitsLoss both(nn::BCEWithLogitsOptions().weight(ones({2})).pos_weight(tensor({2., 3.})));
  CHECK(both.state_dict()[1].first == "pos_weight");
  both.load_state_dict({{"weight", ones({2})}, {"pos_weight", zeros({2})}});
  CHECK(both(x, ones({2})).item() == 0);
  CHECK(nn::clone(nn::HuberLoss(nn::HuberOptions().delta(2).reduction(Reduction::sum)))->forward(x, zero).item() ==
        0.5 + 2 * 3);
}

TEST_CASE("an undefined tensor given to a loss is told by name") {
  const Tensor x = ones({2, 3}), none;
  const auto told = [](const std::string& what, FunctionRef<void()> f) {
    CHECK_THROWS_WITH(f(), Contains(what + " is undefined: give it a value first"));
  };
  told("[cross_entropy] logits", [&] { nn::cross_entropy(none, arange(2)); });
  told("[cross_entropy] targets", [&] { nn::cross_entropy(x, none); });
  told("[nll_loss] input", [&] { nn::nll_loss(none, arange(2)); });
  told("[nll_loss] targets", [&] { nn::nll_loss(x, none); });
  told("[mse_loss] target", [&] { nn::mse_loss(x, none); });
  told("[binary_cross_entropy] target", [&] { nn::binary_cross_entropy(x, none); });
  told("[kl_div] input", [&] { nn::kl_div(none, x); });
  told("[cosine_embedding_loss] b", [&] { nn::cosine_embedding_loss(x, none, ones({2})); });
  told("[cosine_embedding_loss] target", [&] { nn::cosine_embedding_loss(x, x, none); });
}

TEST_CASE("connectionist temporal classification agrees with PyTorch, and with the sum over all paths") {
  const StateDict golden = load_npz(FIT_GOLDEN_DIR "/names.npz");
  const Tensor targets = at(golden, "ctc.targets"), steps = at(golden, "ctc.steps"), labels = at(golden, "ctc.labels");
  for (const auto& [name, r] :
       {std::pair("ctc_none", Reduction::none), {"ctc_mean", Reduction::mean}, {"ctc_sum", Reduction::sum}}) {
    INFO(name);
    const std::string of(name);
    const Tensor x = at(golden, of + ".x0").clone().requires_grad_();
    const Tensor y = nn::ctc_loss(log_softmax(x), targets, steps, labels, nn::CTCOptions().reduction(r));
    CHECK(allclose(y, at(golden, of + ".y"), 1e-12, 0));
    y.backward(at(golden, of + ".d_y"));
    CHECK(allclose(x.grad(), at(golden, of + ".d_x0"), 1e-9, 1e-13));
  }
  // Two steps and one label: blank label, label blank, label label.
  const Tensor p = tensor({{{0.25, 0.75}}, {{0.5, 0.5}}}, float64), one = tensor({1}), two = tensor({2});
  CHECK(nn::ctc_loss(log(p), tensor({{1}}), two, one).item() == Approx(-std::log(0.875)));
  CHECK(nn::ctc_loss(log(p), tensor({{1}}), two, tensor({0})).item() == Approx(-std::log(0.125)));
  CHECK(nn::ctc_loss(log(p), tensor({{1}}), tensor({0}), tensor({0})).item() == 0);
  CHECK(nn::ctc_loss(log(p), tensor({{1}}), tensor({0}), one).item() == INFINITY);
  const Tensor repeated = tensor({{1, 1}});  // needs a blank between: three steps
  CHECK(nn::ctc_loss(log(p), repeated, two, two).item() == INFINITY);
  const Tensor x = log(p).requires_grad_();
  const Tensor none = nn::ctc_loss(x, repeated, two, two, nn::CTCOptions().zero_infinity());
  none.backward();
  CHECK((none.item() == 0 && equal(x.grad(), zeros_like(p))));
}

TEST_CASE("connectionist temporal classification refuses what does not fit") {
  const Tensor x = log_softmax(zeros({4, 2, 3})), y = tensor({{1, 2}, {2, 0}}), steps = tensor({4, 4}),
               n = tensor({2, 1});
  CHECK_NOTHROW(nn::ctc_loss(x, y, steps, n));
  const auto with = [&](const Tensor& labels) { return nn::ctc_loss(x, labels, steps, n); };
  CHECK_THROWS_WITH(with(tensor({{1, 0}, {2, 0}})),
                    Contains("targets[0][1] is 0: it must be in 0 … 2, and not blank (0)"));
  CHECK_THROWS_WITH(with(tensor({{1, 3}, {2, 0}})), Contains("targets[0][1] is 3"));
  CHECK_THROWS_WITH(with(tensor({1, 2})), Contains("log_probs is [4, 2, 3], targets [2]: they must be [T, N, C]"));
  CHECK_THROWS_WITH(nn::ctc_loss(x, y, tensor({4, 5}), n), Contains("input_lengths[1] is 5: it must be in 0 … 4"));
  CHECK_THROWS_WITH(nn::ctc_loss(x, y, steps, tensor({2, 3})), Contains("target_lengths[1] is 3: it must be in 0 … 2"));
  CHECK_THROWS_WITH(nn::ctc_loss(exp(x), y, steps, n), Contains("log_probs has numbers above 0: it must be log"));
  CHECK_THROWS_WITH(nn::ctc_loss(2 + x, y, steps, n), Contains("log_probs has numbers above 0"));
  CHECK_THROWS_WITH(nn::ctc_loss(x, y, steps, n, nn::CTCOptions().blank(3)), Contains("blank is 3"));
}

TEST_CASE("derivatives of the losses") {
  manual_seed(2);
  const Tensor targets = tensor({{0, 3, -100}, {2, 2, 1}});
  std::set<std::string> checked;
  const auto check = [&](const char* loss, const TensorFunction& f, const std::vector<Tensor>& in, int order = 2) {
    checked.insert(loss);
    const GradReport report = check_gradients(f, in, GradCheckOptions().order(order));
    INFO(loss << '\n' << report);
    CHECK(report.ok);
  };
  for (const Reduction r : {Reduction::none, Reduction::mean, Reduction::sum}) {
    check("mse_loss", [r](const auto& in) { return nn::mse_loss(in[0], in[1], r); },
          {randn({3, 4}, float64), randn({3, 4}, float64)});
    check("l1_loss", [r](const auto& in) { return nn::l1_loss(in[0], in[1], r); },
          {randn({3, 4}, float64), randn({3, 4}, float64)});
    check(
        "smooth_l1_loss",
        [&](const auto& in) { return nn::smooth_l1_loss(in[0], in[1], nn::SmoothL1Options().beta(0.5).reduction(r)); },
        {randn({3, 4}, float64), randn({3, 4}, float64)});
    check("cross_entropy",
          [&](const auto& in) { return nn::cross_entropy(in[0], targets, nn::CrossEntropyOptions().reduction(r)); },
          {randn({2, 3, 4}, float64)});
    check("cross_entropy",
          [&](const auto& in) {
            return nn::cross_entropy(in[0], targets,
                                     nn::CrossEntropyOptions().reduction(r).label_smoothing(0.2).weight(ones({4}) * 3));
          },
          {randn({2, 3, 4}, float64)});
    check("cross_entropy",
          [&](const auto& in) {
            return nn::cross_entropy(in[0], softmax(in[1]),
                                     nn::CrossEntropyOptions().reduction(r).label_smoothing(0.2));
          },
          {randn({2, 4}, float64), randn({2, 4}, float64)});
    check("nll_loss", [&](const auto& in) { return nn::nll_loss(in[0], targets, nn::NLLOptions().reduction(r)); },
          {randn({2, 3, 4}, float64)});
    check("binary_cross_entropy",
          [&](const auto& in) {
            return nn::binary_cross_entropy(sigmoid(in[0]), sigmoid(in[1]), nn::BCEOptions().reduction(r));
          },
          {randn({3, 2}, float64), randn({3, 2}, float64)});
    check("binary_cross_entropy_with_logits",
          [&](const auto& in) {
            return nn::binary_cross_entropy_with_logits(in[0], sigmoid(in[1]),
                                                        nn::BCEWithLogitsOptions().pos_weight(ones({2})).reduction(r));
          },
          {randn({3, 2}, float64), randn({3, 2}, float64)});
    check("focal_loss",
          [&](const auto& in) {
            return nn::focal_loss(in[0], sigmoid(in[1]), nn::FocalOptions().alpha(0.3).gamma(1.5).reduction(r));
          },
          {randn({3, 2}, float64), randn({3, 2}, float64)});
    check("huber_loss",
          [&](const auto& in) { return nn::huber_loss(in[0], in[1], nn::HuberOptions().delta(0.5).reduction(r)); },
          {randn({3, 2}, float64), randn({3, 2}, float64)});
    check("gaussian_nll_loss",
          [&](const auto& in) {
            return nn::gaussian_nll_loss(in[0], in[1], square(in[2]) + 0.1,
                                         nn::GaussianNLLOptions().full().reduction(r));
          },
          {randn({3, 2}, float64), randn({3, 2}, float64), randn({3}, float64)});
    check("kl_div",
          [&](const auto& in) { return nn::kl_div(in[0], in[1], nn::KLDivOptions().log_target().reduction(r)); },
          {randn({3, 2}, float64), randn({3, 2}, float64)});
    check("cosine_embedding_loss",
          [&](const auto& in) {
            return nn::cosine_embedding_loss(in[0], in[1], tensor({1, -1, -1}),
                                             nn::CosineEmbeddingOptions().margin(-1).reduction(r));
          },
          {randn({3, 4}, float64), randn({3, 4}, float64)});
    check(
        "ctc_loss",
        [&](const auto& in) {
          return nn::ctc_loss(log_softmax(in[0]), tensor({{1, 1, 3}, {2, 0, 0}}), tensor({6, 5}), tensor({3, 1}),
                              nn::CTCOptions().reduction(r));
        },
        {randn({6, 2, 4}, float64)}, 1);
    check("mean_over", [](const auto& in) { return nn::mean_over(sum(square(in[0])), 3); }, {randn({3}, float64)});
    check("sum_of", [](const auto& in) { return nn::sum_of(sum(square(in[0]))); }, {randn({3}, float64)});
  }

  // ... of all of them
  std::ifstream header(FIT_NN_HEADERS "/loss/loss.hpp");
  const std::string text{std::istreambuf_iterator<char>(header), {}};
  const auto names = test::matches(text, R"(\nTensor (\w+)\()");
  const std::set<std::string> declared(names.begin(), names.end());
  REQUIRE(declared.count("cross_entropy") == 1);
  CHECK(declared == checked);
}

// ---- the losses as layers, in the table of all ----------------------------------------------------------------------

namespace fit::test::loss_test {
namespace {

std::vector<LayerRow> loss_rows() {
  const auto pair = [](const auto& loss, const auto& in) { return loss(in[0], in[1]); };
  const auto scores_and_ids = [] { return std::vector<Tensor>{tensor({{.1, .2, -.3}, {1., 0., 2.}}), tensor({2, 0})}; };
  const auto yes_and_no = [] {
    return std::vector<Tensor>{tensor({{.1, .2, .9}, {.4, .6, .3}}), tensor({{.1, .9, .8}, {.25, .2, .6}})};
  };
  return {
      layer_row([] { return nn::MSELoss(); }, pair).on({{3, 4}, {3, 4}}),
      layer_row([] { return nn::L1Loss(); }, pair).on({{3, 4}, {3, 4}}),
      layer_row([] { return nn::SmoothL1Loss(); }, pair).on({{3, 4}, {3, 4}}),
      layer_row([] { return nn::HuberLoss(); }, pair).on({{3, 4}, {3, 4}}),
      layer_row([] { return nn::KLDivLoss(nn::KLDivOptions().log_target()); }, pair).on({{3, 4}, {3, 4}}),
      layer_row([] { return nn::FocalLoss(); }, pair).with(yes_and_no),
      layer_row([] { return nn::BCEWithLogitsLoss(); }, pair).with(yes_and_no),
      layer_row(
          [] { return nn::BCEWithLogitsLoss(nn::BCEWithLogitsOptions().weight(ones({3})).pos_weight(ones({3}))); },
          pair)
          .with(yes_and_no),
      layer_row([] { return nn::BCELoss(); }, pair).with(yes_and_no),
      layer_row([] { return nn::CrossEntropyLoss(); }, pair).with(scores_and_ids),
      layer_row([] { return nn::CrossEntropyLoss(nn::CrossEntropyOptions().label_smoothing(0.1).weight(ones({3}))); },
                pair)
          .with(scores_and_ids),
      layer_row([] { return nn::NLLLoss(); }, pair).with(scores_and_ids),
      layer_row([] { return nn::GaussianNLLLoss(); },
                [](const auto& loss, const auto& in) { return loss(in[0], in[1], square(in[2]) + 0.1); })
          .on({{3, 4}, {3, 4}, {3, 4}}),
      layer_row([] { return nn::CosineEmbeddingLoss(); },
                [](const auto& loss, const auto& in) {
                  return loss(in[0], in[1], tensor({1, -1, 1}));
                })
          .on({{3, 4}, {3, 4}}),
      layer_row([] { return nn::CTCLoss(nn::CTCOptions().blank(3)); },
                [](const auto& loss, const auto& in) {
                  return loss(log_softmax(in[0]), tensor({{0, 0}, {2, 1}}), tensor({5, 4}), tensor({2, 2}));
                })
          .on({{5, 2, 4}}),
  };
}
const RegisterLayers losses(loss_rows);

}  // namespace

TEST_CASE("losses: what is just at a bound") {
  const Tensor x = arange(2).to(float32);
  CHECK(nn::focal_loss(x, ones({2}), nn::FocalOptions().alpha(0)).item() == 0);
  CHECK_NOTHROW(nn::smooth_l1_loss(x, x, nn::SmoothL1Options().beta(std::numeric_limits<float>::min())));
  // What is as narrow as bfloat16 is rounded to it; a wider target keeps the loss wide.
  const Tensor narrow = x.to(bfloat16);
  for (const Tensor& target : {narrow, x})
    for (const Tensor& loss : {nn::mse_loss(narrow, target), nn::l1_loss(narrow, target)})
      CHECK(loss.dtype() == target.dtype());
  // A class that can't be has no part in the loss where nothing is smoothed.
  const Tensor logits = cat({zeros({1, 1}), full({1, 1}, -INFINITY)}, -1), first = zeros({1}, int64);
  CHECK(nn::cross_entropy(logits, first).item() == 0);
}

}  // namespace fit::test::loss_test
