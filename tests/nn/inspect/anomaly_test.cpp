#include "fit/nn/inspect/anomaly.hpp"

#include <cmath>

#include "fit/backward/activation_checkpoint.hpp"
#include "fit/nn.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::anomaly_test {
namespace {

using Catch::Contains;

// A network of which a layer in the middle makes what it is told to.
struct Middle final : nn::UnaryLayer {
  Callable<Tensor(const Tensor&)> f;
  explicit Middle(Callable<Tensor(const Tensor&)> g) : f(std::move(g)) {}
  Tensor forward(const Tensor& x) const override { return f(x); }
  FIT_FIELDS()
};
struct Net final : nn::UnaryLayer {
  explicit Net(Callable<Tensor(const Tensor&)> f) : body(nn::Linear(4, 4), Middle(std::move(f)), nn::Linear(4, 1)) {}
  Tensor forward(const Tensor& x) const override { return body(x); }
  FIT_FIELDS(body)
  nn::Sequential body;
};

}  // namespace

TEST_CASE("the first operation that makes a NaN or an infinity is named, with its inputs and its layer", "[anomaly]") {
  const DetectAnomaly detect;
  const Tensor x = tensor({{1., 0., 2.}, {3., 4., 5.}});
  CHECK_THROWS_WITH(log(x),
                    "[log] its result has an infinity in 1 of 6 elements, the first at [0, 1]; input 0 is [2, 3] "
                    "from 0 to 5");
  CHECK_THROWS_WITH(x / (x - x), Contains("[div] its result has a NaN in 6 of 6 elements") &&
                                     Contains("input 1 is [2, 3] from 0 to 0"));
  CHECK_THROWS_WITH(sqrt(x - 1), Contains("[sqrt] its result has a NaN in 1 of 6 elements, the first at [0, 1]"));
  const Net net([](const Tensor& z) { return log(relu(z) * 0); });
  CHECK_THROWS_WITH(net(ones({2, 4})), Contains("[log]") && Contains("in body.1"));
}

TEST_CASE("inputs of every kind are put into words", "[anomaly]") {
  const DetectAnomaly detect;
  const Tensor x = tensor({0., 1.});
  CHECK_THROWS_WITH(fit::pow(x, tensor({-1, 2})), Contains("[pow] its result has an infinity in 1 of 2 elements") &&
                                                      Contains("input 0 is [2] from 0 to 1; input 1 is [2] int64"));
  CHECK_THROWS_WITH(log(tensor(-1.)), Contains("[log] its result has a NaN in 1 of 1 elements, the first at []"));
  CHECK_NOTHROW(log(zeros({0})));
}

TEST_CASE("an adjoint is told only if everything before it was clean", "[anomaly]") {
  Tensor x = tensor({0., 1.}).requires_grad_();
  const Tensor bad = tensor({static_cast<double>(INFINITY), 1.});
  const DetectAnomaly detect;
  CHECK_NOTHROW(sqrt(x).backward(bad));  // what comes back has an infinity already
  x.zero_grad();
  CHECK_NOTHROW(sum(x * bad).backward());  // a saved tensor has one
  // x has a gradient with an infinity now: the next adjoint adds to it.
  CHECK_NOTHROW(sum(sqrt(x)).backward());
  // The adjoint of div keeps both inputs: both are told.
  Tensor a = tensor({1.}).requires_grad_(), b = tensor({1e-30}).requires_grad_();
  CHECK_THROWS_WITH(sum(a / b).backward(), Contains("[div_backward] the gradient of input 1 has an infinity"));
  // Where no layer was called, no place is told.
  Tensor y = tensor({0.}).requires_grad_();
  CHECK_THROWS_WITH(sum(sqrt(y)).backward(), !Contains("recorded in"));
}

TEST_CASE("the first adjoint that makes one is named, with the layer that it was recorded in", "[anomaly]") {
  const DetectAnomaly detect;
  Tensor x = tensor({0., 1.}).requires_grad_();
  const Tensor y = sum(sqrt(x));
  CHECK_THROWS_WITH(y.backward(),
                    Contains("[sqrt_backward] the gradient of input 0 has an infinity in 1 of 2 elements, "
                             "the first at [0]; what came back is [2] from 1 to 1"));
  const Net net([](const Tensor& z) { return sqrt(abs(z) * 0); });
  const Tensor loss = sum(net(ones({2, 4})));
  CHECK_THROWS_WITH(loss.backward(), Contains("[sqrt_backward]") && Contains("it was recorded in body.1"));
}

TEST_CASE("what was not made is not told, and all is as before afterwards", "[anomaly]") {
  const Tensor bad = tensor({1., static_cast<double>(NAN)});
  {
    const DetectAnomaly detect;
    CHECK_NOTHROW(exp(bad));
    CHECK_NOTHROW(softmax(masked_fill(zeros({2, 2}), tensor({{0, 1}, {0, 0}}).to(boolean), -INFINITY)));
    const Tensor hidden = tensor({{0, 1}, {0, 0}}).to(boolean), q = ones({1, 1, 2, 2});
    CHECK_NOTHROW(where(hidden, -INFINITY, zeros({2, 2})));
    CHECK_NOTHROW(zeros({2, 2}) + INFINITY);
    CHECK_THROWS_WITH(zeros({2}) / 0, Contains("[div] its result has a NaN in 2 of 2 elements"));
    CHECK_THROWS_WITH(where(tensor({true, false}), tensor({3e38, 0.}) * 2, 0), Contains("[mul]"));
    CHECK_NOTHROW(attend(q, q, q, AttentionOptions().mask(hidden).lse()));  // the last query sees no key
    Tensor w = ones({2}).requires_grad_();
    CHECK_NOTHROW(sum(w * bad).backward());
    { const DetectAnomaly inner; }
    CHECK_THROWS_AS(log(zeros({1})), Error);
  }
  CHECK_NOTHROW(log(zeros({1})));
  const Net net([](const Tensor& z) { return log(z * 0); });
  CHECK_NOTHROW(net(ones({2, 4})));
}

TEST_CASE("within checkpoint(), the operations are told, and an infinity that one is given is allowed", "[anomaly]") {
  const DetectAnomaly detect;
  Tensor x = randn({2, 2}).requires_grad_();
  const Tensor hidden = tensor({{0, 1}, {0, 0}}).to(boolean);
  const auto masked = [&](const Tensor& z) { return masked_fill(z, hidden, -INFINITY); };
  CHECK_NOTHROW(sum(softmax(checkpoint(masked, x)) * x).backward());
  CHECK_THROWS_WITH(checkpoint([](const Tensor& z) { return log(z * 0); }, x),
                    Contains("[log] its result has an infin"));
  const Net net([](const Tensor& z) { return sqrt(abs(z) * 0); });
  const Tensor loss = sum(checkpoint([&](const Tensor& z) { return net(z); }, ones({2, 4}).requires_grad_()));
  CHECK_THROWS_WITH(loss.backward(), Contains("[sqrt_backward]") && Contains("it was recorded in body.1"));
}

TEST_CASE("bfloat16 results and gradients are checked like any other", "[anomaly]") {
  const DetectAnomaly detect;
  const Tensor x = tensor({1., 0., 2.}, bfloat16);
  CHECK_THROWS_WITH(log(x), Contains("[log] its result has an infinity in 1 of 3 elements, the first at [1]; input 0 "
                                     "is [3] from 0 to 2"));
  Tensor w = tensor({0., 1.}, bfloat16).requires_grad_();
  CHECK_THROWS_WITH(sum(sqrt(w)).backward(), Contains("[sqrt_backward] the gradient of input 0 has an infinity"));
  const Autocast half(bfloat16);
  const Net net([](const Tensor& z) { return log(relu(z) * 0); });
  CHECK_THROWS_WITH(net(ones({2, 4})), Contains("[log]") && Contains("in body.1"));
}

TEST_CASE("a training step under DetectAnomaly has the same bits", "[anomaly]") {
  const DType dtype = GENERATE(float32, bfloat16);  // of products
  const auto gradients = [&](bool watched) {
    const Autocast products(dtype);
    manual_seed(2);
    const auto o = nn::GPTOptions().vocab_size(7).context_length(5).num_layers(2).num_heads(2).d_model(8).dropout(0.1);
    const nn::GPT gpt(o);
    std::optional<DetectAnomaly> detect;
    if (watched) detect.emplace();
    gpt.loss(tensor({{1, 2, 3, 4, 5}}), tensor({{2, 3, 4, 5, 6}})).backward();
    std::vector<Tensor> all;
    for (const Tensor& p : gpt.parameters()) all.push_back(p.grad());
    return all;
  };
  const std::vector<Tensor> once = gradients(false), again = gradients(true);
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(same_bits(once[i], again[i]));
}

}  // namespace fit::test::anomaly_test
