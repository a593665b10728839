#include "fit/nn/distributions/distributions.hpp"

#include <cmath>

#include "fit/graph/autocast.hpp"
#include "support/catch.hpp"
#include "support/oracles/golden.hpp"
#include "support/tensors.hpp"

using namespace fit;
using Catch::Contains;
namespace d = fit::distributions;

namespace fit::test::distributions_test {
namespace {

// log_prob, entropy and kl_divergence, and the gradients of their sum, as torch.distributions computes them. make()
// makes a distribution of the parameters p0, p1 ….
template <class Make>
void check_distribution(const std::string& name, const std::vector<std::string>& parameters, const Make& make) {
  const Golden golden("distributions/" + name);
  for (const DType dtype : {float64, float32}) {
    INFO(name << ' ' << dtype);
    std::vector<Tensor> p, q;
    for (const std::string& i : parameters) {
      p.push_back(leaf_of(golden, 'p' + i, dtype));
      q.push_back(leaf_of(golden, 'q' + i, dtype));
    }
    const auto one = make(p), other = make(q);
    const Tensor value = golden("value");
    const Tensor log_prob = one.log_prob(is_floating(value.dtype()) ? value.to(dtype) : value);
    const Tensor entropy = one.entropy(), kl = kl_divergence(one, other);
    check_close("log_prob", log_prob, golden("log_prob"), dtype);
    check_close("entropy", entropy, golden("entropy"), dtype);
    check_close("kl_divergence", kl, golden("kl"), dtype);
    (sum(log_prob * golden("d_log_prob")) + sum(entropy * golden("d_entropy")) + sum(kl * golden("d_kl"))).backward();
    for (std::size_t i = 0; i < p.size(); ++i) {
      check_close("gradient of p" + parameters[i], p[i].grad(), golden("d_p" + parameters[i]), dtype);
      check_close("gradient of q" + parameters[i], q[i].grad(), golden("d_q" + parameters[i]), dtype);
    }
  }
}

}  // namespace

TEST_CASE("distributions agree with torch.distributions", "[golden]") {
  check_distribution("normal", {"0", "1"}, [](const auto& p) { return d::Normal(p[0], p[1]); });
  check_distribution("uniform", {"0", "1"}, [](const auto& p) { return d::Uniform(p[0], p[1]); });
  check_distribution("bernoulli", {"0"}, [](const auto& p) { return d::Bernoulli(p[0]); });
  check_distribution("bernoulli_logits", {"0"}, [](const auto& p) { return d::Bernoulli::from_logits(p[0]); });
  check_distribution("categorical", {"0"}, [](const auto& p) { return d::Categorical(p[0]); });
  check_distribution("categorical_logits", {"0"}, [](const auto& p) { return d::Categorical::from_logits(p[0]); });
}

TEST_CASE("samples of distributions have their shape, mean and spread") {
  const Tensor loc = tensor({{1., -2.}, {0., 5.}}), scale = tensor({0.5, 2.});
  Generator g(4);
  const auto near = [](const Tensor& x, const Tensor& y, double tolerance) {
    return max(abs(x - y)).item() < tolerance;
  };
  const d::Normal normal(loc, scale);
  const Tensor draws = normal.sample({100, 200}, g), flat = reshape(draws, {20000, 2, 2});
  CHECK(draws.shape() == Shape{100, 200, 2, 2});
  CHECK(near(mean(flat, 0), loc, 0.05));
  CHECK(near(fit::std(flat, 0), normal.scale(), 0.05));

  const d::Uniform uniform(loc, loc + 2);
  const Tensor evenly = uniform.sample({20000}, g);
  CHECK(all(evenly >= uniform.low() && evenly <= uniform.high()).item<bool>());
  CHECK(near(mean(evenly, 0), loc + 1, 0.02));

  const Tensor p = tensor({0., 0.25, 1.});
  const Tensor bits = d::Bernoulli(p).sample({20000}, g);
  CHECK(bits.dtype() == float32);
  CHECK(near(mean(bits, 0), p, 0.02));

  const Tensor weights = tensor({{1., 0., 3.}, {0., 2., 2.}});
  const Tensor classes = d::Categorical(weights).sample({200, 100}, g);
  CHECK(classes.shape() == Shape{200, 100, 2});
  CHECK(near(mean(one_hot(reshape(classes, {20000, 2}), 3, float32), 0), weights / 4, 0.02));
  CHECK(d::Categorical(weights).sample({}, g).shape() == Shape{2});
}

TEST_CASE("rsample passes gradients on, sample does not") {
  const Tensor loc = tensor({1., 2.}).requires_grad_(), scale = tensor({1., 3.}).requires_grad_();
  Generator g(1), same(1);
  const Tensor x = d::Normal(loc, scale).rsample({4}, g), noise = randn({4, 2}, float32, same);
  sum(x).backward();
  CHECK(loc.grad().to_vector<float>() == std::vector<float>{4, 4});
  CHECK(test::max_difference(scale.grad(), sum(noise, 0)) < 1e-6);
  CHECK(!d::Normal(loc, scale).sample({4}, g).requires_grad());
  const Tensor u = d::Uniform(loc, loc + 1).rsample({}, g);
  CHECK(u.requires_grad());
}

TEST_CASE("distributions at the edges of what they allow") {
  const Tensor p = tensor({0., 1., 0.5});
  // As in PyTorch: p is limited by eps for logarithms, not for the entropy's weights.
  CHECK(test::max_difference(d::Bernoulli(p).log_prob(tensor({0., 1., 1.})), log(tensor({1., 1., 0.5}))) < 1e-6);
  CHECK(test::max_difference(d::Bernoulli(p).entropy(), tensor({0., 0., std::log(2.)})) < 1e-5);
  const Tensor rare = tensor({1e-8, 0.25, 0., 1.}).requires_grad_(), spread = d::Bernoulli(rare).entropy();
  CHECK(spread[0].item() == Approx(1e-8 * (std::log(1e8) + 1)));
  sum(spread).backward();
  CHECK(rare.grad()[0].item() == Approx(std::log(1e8)));
  CHECK(rare.grad()[1].item() == Approx(std::log(3.)));
  CHECK(rare.grad()[2].item() == Approx(88).margin(1));
  CHECK(rare.grad()[3].item() == Approx(-17).margin(1));
  CHECK(std::isinf(kl_divergence(d::Bernoulli(tensor({0.5})), d::Bernoulli(tensor({1.}))).item()));
  CHECK(kl_divergence(d::Bernoulli(tensor({1.})), d::Bernoulli(tensor({1.}))).item() == 0);
  const d::Categorical some(tensor({0., 1., 1.})), all(tensor({1., 1., 1.}));
  CHECK(kl_divergence(some, all).item() == Approx(std::log(1.5)));
  CHECK(std::isinf(kl_divergence(all, some).item()));
  CHECK(some.entropy().item() == Approx(std::log(2.)));
  // H = x s(-x) + log(1 + e^-x), with a derivative of -x s(x) s(-x): even, and small without being 0.
  const Tensor logits = tensor({40., -40.}, float64).requires_grad_();
  const Tensor small = d::Bernoulli::from_logits(logits).entropy();
  sum(small).backward();
  for (const double h : test::values(small)) CHECK(h == Approx(41 * std::exp(-40.)).epsilon(1e-14).scale(0));
  CHECK(logits.grad()[0].item() == Approx(-40 * std::exp(-40.)).epsilon(1e-14).scale(0));
  CHECK(logits.grad()[1].item() == Approx(40 * std::exp(-40.)).epsilon(1e-14).scale(0));
  const d::Uniform unit(tensor(0.), tensor(1.)), half(tensor(0.), tensor(0.5));
  CHECK(test::values(unit.log_prob(tensor({-0.5, 0., 0.5, 1.}))) == std::vector<double>{-INFINITY, 0, 0, -INFINITY});
  CHECK(kl_divergence(half, unit).item() == Approx(std::log(2.)));
  CHECK(std::isinf(kl_divergence(unit, half).item()));
  CHECK(d::Categorical::from_logits(zeros({2, 4})).log_prob(tensor({{0}, {3}, {1}})).shape() == Shape{3, 2});
}

TEST_CASE("the entropy of classes has a slope where a probability is 0") {
  const Tensor weights = tensor({0., 1., 3.}, float64).requires_grad_();
  d::Categorical(weights).entropy().backward();
  const Tensor expected = tensor({9.12032956, 0.20598980, -0.06866327}, float64);  // PyTorch 2.13
  CHECK(test::max_difference(weights.grad(), expected) < 1e-6);
}

TEST_CASE("gradients of entropies and divergences are finite where a probability is 0") {
  const auto gradient = [](const auto& f) {
    const Tensor logits = tensor({0., -INFINITY, 1.}).requires_grad_();
    f(d::Categorical::from_logits(logits)).backward();
    return logits.grad();
  };
  const auto even = d::Categorical::from_logits(zeros({3}));
  const Tensor of_entropy = gradient([](const d::Categorical& p) { return p.entropy(); });
  CHECK(test::max_difference(of_entropy, tensor({0.1966119, 0., -0.1966119})) < 1e-6);  // PyTorch 2.14
  const auto from_even = [&](const d::Categorical& p) { return kl_divergence(p, p) + kl_divergence(p, even); };
  CHECK(test::max_difference(gradient(from_even), -of_entropy) < 1e-6);
  const auto excluding = [&](const d::Categorical& p) {
    const Tensor infinite = kl_divergence(even, p);
    CHECK(std::isinf(infinite.item()));
    return infinite;
  };
  CHECK(all(isfinite(gradient(excluding))).item<bool>());
  const Tensor sure = tensor({-INFINITY, INFINITY}).requires_grad_();
  sum(kl_divergence(d::Bernoulli::from_logits(sure), d::Bernoulli::from_logits(zeros({2})))).backward();
  CHECK(test::values(sure.grad()) == std::vector<double>{0, 0});
}

TEST_CASE("finite logits exclude nothing, also where their probability rounds to 0 or 1") {
  const d::Bernoulli half(tensor({0.5, 0.5, 0.5}));
  const Tensor divergences = kl_divergence(half, d::Bernoulli::from_logits(tensor({20., -200., 1000.})));
  // ln(1 + e^-|x|) + |x| / 2 - ln 2
  CHECK(test::max_difference(divergences, tensor({10., 100., 500.}) - std::log(2.)) < 1e-4);
  const d::Categorical even(tensor({1., 1.})), far = d::Categorical::from_logits(tensor({0., -200.}));
  CHECK(kl_divergence(even, far).item() == Approx(100 - std::log(2.)));
  CHECK(std::isinf(kl_divergence(half, d::Bernoulli::from_logits(tensor({INFINITY, 0., 0.})))[0].item()));
  CHECK(std::isinf(kl_divergence(even, d::Categorical::from_logits(tensor({0., -INFINITY}))).item()));
  // d/dx of the divergence of 0.5 from s(x) is x s(x) s(-x), also where s(x) rounds to 1.
  const Tensor sure = tensor({20., 100., -100.}, float64).requires_grad_();
  sum(kl_divergence(d::Bernoulli::from_logits(sure), d::Bernoulli(full({3}, 0.5, float64)))).backward();
  const std::vector<double> slopes = test::values(sure.grad()), xs = test::values(sure);
  for (std::size_t i = 0; i < xs.size(); ++i)
    CHECK(slopes[i] == Approx(xs[i] * std::exp(-std::abs(xs[i]))).epsilon(1e-8).scale(0));
}

TEST_CASE("samples of a uniform distribution are below its upper end, and as likely at its lower one") {
  Generator g(6);
  const Tensor low = tensor(1e6), samples = d::Uniform(low, low + 0.5).sample({8000}, g);  // 8 numbers: 1e6 + i / 16
  for (int i = 0; i < 8; ++i) CHECK(sum(samples == low + i / 16.).item() == Approx(1000).margin(150));
  CHECK(test::values(d::Uniform(tensor({1e8}), tensor({1e8 + 8})).sample({100}, g)) == std::vector<double>(100, 1e8));
}

TEST_CASE("parameters of two floating types are promoted") {
  const Tensor loc = tensor({0.5, -1.}).to(bfloat16).requires_grad_(), scale = tensor({1., 3.});
  const Tensor value = tensor({0.3, 0.7});
  const d::Normal mixed(loc, scale), same(loc.detach().to(float32), scale);
  CHECK(equal(mixed.log_prob(value).detach(), same.log_prob(value)));
  CHECK(mixed.sample().dtype() == float32);
  sum(mixed.log_prob(value)).backward();
  CHECK(loc.grad().dtype() == bfloat16);
  CHECK(d::Uniform(zeros({2}), ones({2}, float64)).sample().dtype() == float64);
  const Autocast bf16(bfloat16);  // as a network gives them
  const Tensor mean = linear(ones({1, 2}), ones({2, 2})), deviation = exp(mean);
  CHECK(d::Normal(mean, deviation).log_prob(mean).dtype() == deviation.dtype());
}

TEST_CASE("distributions refuse wrong parameters and values") {
  const Tensor one = tensor({1.});
  CHECK_THROWS_WITH(d::Normal(one, tensor({0.})), Contains("[Normal] scale has numbers that are not positive"));
  CHECK_THROWS_WITH(d::Normal(one, tensor({NAN})), Contains("[Normal] scale has NaN"));
  CHECK_THROWS_WITH(d::Normal(tensor({NAN}), one), Contains("[Normal] loc has NaN"));
  CHECK_THROWS_WITH(d::Normal(ones({2}), ones({3})), Contains("[Normal] shapes [2] and [3] do not broadcast"));
  CHECK_THROWS_WITH(d::Normal(one, tensor({1})), Contains("[Normal] scale is int64"));
  CHECK_THROWS_WITH(d::Uniform(one, one), Contains("[Uniform] low is not less than high everywhere"));
  CHECK_THROWS_WITH(d::Uniform(tensor({-3e38}), tensor({3e38})), Contains("[Uniform] high - low is not finite"));
  CHECK_THROWS_WITH(d::Bernoulli::from_logits(tensor({NAN})), Contains("[Bernoulli] logits has NaN"));
  CHECK_THROWS_WITH(d::Bernoulli(tensor({1.5})), Contains("[Bernoulli] probs has numbers outside 0 … 1"));
  CHECK_THROWS_WITH(d::Bernoulli(one).log_prob(tensor({0.5})), Contains("value has other numbers than 0 and 1"));
  CHECK_THROWS_WITH(d::Categorical(tensor(1.)), Contains("[Categorical] probs has shape []: it must be [..., C]"));
  for (const double logit : {NAN, INFINITY, -INFINITY})
    CHECK_THROWS_WITH(d::Categorical::from_logits(full({2}, logit)), Contains("log_softmax(logits) has NaN"));
  CHECK_THROWS_WITH(d::Categorical(tensor({-1., 2.})),
                    Contains("probs has negative numbers: from_logits() takes logits"));
  CHECK_THROWS_WITH(d::Categorical(tensor({0., 0.})), Contains("the sum of probs is not positive"));
  CHECK_THROWS_WITH(d::Categorical(one).log_prob(tensor({1})), Contains("value has ids outside 0 … 0: there are 1"));
  CHECK_THROWS_WITH(kl_divergence(d::Categorical(ones({3})), d::Categorical(one)),
                    Contains("[kl_divergence] p has 3 classes, q 1: both must have the same"));
  CHECK_THROWS_WITH(d::Categorical(one).log_prob(one), Contains("value is float32: it must be int64"));
}

}  // namespace fit::test::distributions_test
