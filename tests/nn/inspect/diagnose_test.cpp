#include "fit/nn/inspect/diagnose.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fit/nn.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// diagnose(): each ailment is made on purpose, and found; a healthy model has none.
namespace fit::test::diagnose_test {
namespace {

using Catch::Matchers::Contains;
using nn::Issue;

const nn::Finding* found(const nn::Diagnosis& d, const std::string& name) {
  for (const nn::Finding& f : d.findings)
    if (f.name == name) return &f;
  return nullptr;
}

void check_finding(const nn::Diagnosis& d, const std::string& name, Issue what, const std::string& text) {
  INFO(d);
  const nn::Finding* const f = found(d, name);
  REQUIRE(f);
  CHECK(name_of(f->what) == std::string(name_of(what)));
  CHECK_THAT(f->text, Contains(text));
}

// Between the two layers stands what a test puts there.
struct Net final : nn::UnaryLayer {
  explicit Net(Callable<Tensor(const Tensor&)> f) : between(std::move(f)) {}
  Tensor forward(const Tensor& x) const override { return out(between(hidden(x))); }
  FIT_FIELDS(hidden, unused, out)
  nn::Linear hidden{4, 8}, unused{4, 4}, out{8, 1};
  Callable<Tensor(const Tensor&)> between;
};

nn::Diagnosis diagnosis(const Net& net, const Tensor& x = rand({6, 4})) {
  return nn::diagnose(net, [&] { return mean(square(net(x))); });
}

}  // namespace

TEST_CASE("diagnose() and summary() leave running statistics as they were", "[diagnose]") {
  nn::Sequential net(nn::Linear(4, 3), nn::BatchNorm(3));
  const Tensor x = rand({6, 4});
  net(x);
  const auto& norm = net.layer<nn::BatchNorm>("1");
  const Tensor mean_before = norm.running_mean.clone(), var_before = norm.running_var.clone();
  const auto check = [&] {
    CHECK(same_bits(norm.running_mean, mean_before));
    CHECK(same_bits(norm.running_var, var_before));
  };
  nn::diagnose(net, [&] { return mean(square(net(x))); });
  check();
  nn::summary(net, x);
  check();
  CHECK_THROWS(nn::diagnose(net, [&] { return net(x); }));
  check();
}

TEST_CASE("a parameter without a gradient is told with the operation that cut it off", "[diagnose]") {
  manual_seed(1);
  const Tensor x = rand({6, 4});
  check_finding(diagnosis(Net([](const Tensor& h) { return tanh(h.detach()); })), "hidden.weight", Issue::no_gradient,
                "used by linear in hidden; the way to the loss was cut by a detach() before tanh in Net");
  const auto without_grad = [](const Tensor& h) {
    const NoGrad no_grad;
    return exp(h);
  };
  check_finding(diagnosis(Net(without_grad)), "hidden.bias", Issue::no_gradient,
                "the way to the loss was cut at exp in Net, which ran under NoGrad");
  check_finding(diagnosis(Net([](const Tensor& h) {
                  return argmax(h, 1, KeepDims{}).to(float32).unsqueeze(-1) * ones({1, 8});
                })),
                "hidden.weight", Issue::no_gradient, "was linear in hidden, and the loss does not depend on that");
  const nn::Diagnosis plain = diagnosis(Net([](const Tensor& h) { return tanh(h); }));
  check_finding(plain, "unused.weight", Issue::no_gradient, "No operation used it: unused was not called");
  CHECK(plain.findings.size() == 2);  // its weight and its bias
}

TEST_CASE("what cuts a parameter off is told wherever it is", "[diagnose]") {
  const auto alias_without_grad = [](const Tensor& h) {
    const NoGrad no_grad;
    return reshape(h, h.shape());
  };
  check_finding(diagnosis(Net([&](const Tensor& h) { return tanh(alias_without_grad(h)); })), "hidden.weight",
                Issue::no_gradient,
                "used by reshape in Net; the way to the loss was cut at reshape in Net, which ran under NoGrad");
  struct Mixed final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return inner(x) + fit::exp(cut.value().detach()); }
    FIT_FIELDS_ONLY(inner, cut, alone)
    struct Inner final : nn::UnaryLayer {
      Tensor forward(const Tensor& x) const override { return x * used.value(); }
      FIT_FIELDS_ONLY(used, spare)
      nn::Parameter used{ones({2})}, spare{ones({2})};
    } inner;
    nn::Parameter cut{ones({2})}, alone{ones({2})};
  } mixed;
  const auto loss = [&] { return mean(square(mixed(ones({3, 2})))); };
  const nn::Diagnosis d = nn::diagnose(mixed, loss);
  check_finding(d, "cut", Issue::no_gradient, "The way to the loss was cut by a detach() before exp in Mixed");
  check_finding(d, "alone", Issue::no_gradient, "No operation used it");
  check_finding(d, "inner.spare", Issue::no_gradient, "No operation used it");
  for (const char* const name : {"alone", "inner.spare"}) CHECK_THAT(found(d, name)->text, !Contains("not called"));
  CHECK_THROWS_WITH(nn::diagnose(mixed, [] { return tensor(1); }),
                    "[diagnose] the loss is of shape [] and type int64: it must be one floating number");
  mixed.freeze();
  CHECK(nn::diagnose(mixed, loss).findings.empty());  // nothing is trained
}

TEST_CASE("operations in one layer are counted by their kind, and where nothing can be said, none is", "[diagnose]") {
  const nn::Diagnosis d = diagnosis(Net([](const Tensor& h) {
    const Tensor none = relu(zeros({0, 3})), one = relu(sum(h)), single = softmax(ones({2, 1}));
    return relu(h) + relu(h * 2) + softmax(h) + softmax(h, 0) + none.numel() + one * 0 + sum(single) * 0;
  }));
  INFO(d);
  REQUIRE(d.activations.size() == 2);
  CHECK(d.activations[0].op == "relu");
  CHECK(d.activations[0].count == 1 + 8 + 8);  // the sum is one unit
  CHECK(d.activations[1].op == "softmax");
  CHECK(d.activations[1].count == 6);  // 8 columns of a softmax along the first axis are no rows
}

TEST_CASE("a query that a mask leaves one key has no choice", "[diagnose]") {
  nn::MultiHeadAttention attention(8, 2);
  const Tensor x = randn({1, 3, 8}), mask = tensor({{true, false, false}, {true, true, false}, {true, true, true}});
  const nn::Diagnosis d =
      nn::diagnose(attention, [&] { return mean(square(attention(x, x, x, AttentionTerms().mask(mask)))); });
  REQUIRE(d.activations.size() == 1);
  CHECK(d.activations[0].count == 4);  // two queries in two heads
}

TEST_CASE("a loss without any graph cuts off all, and a frozen parameter is no finding", "[diagnose]") {
  Net net([](const Tensor& h) { return tanh(h); });
  const Tensor x = rand({6, 4});
  const nn::Diagnosis none = nn::diagnose(net, [&] { return mean(net(x)).detach(); });
  CHECK(none.findings.size() == 6);
  net.unused.freeze();
  const nn::Diagnosis d = diagnosis(net);
  INFO(d);
  CHECK(d.healthy());
  CHECK_FALSE(d.parameters[2].gradient_rms.has_value());
}

TEST_CASE("zero, vanishing, exploding and infinite gradients", "[diagnose]") {
  check_finding(diagnosis(Net([](const Tensor& h) { return h * 0; })), "hidden.weight", Issue::zero,
                "All 32 elements are 0");
  check_finding(diagnosis(Net([](const Tensor& h) { return h * 1e-12; })), "hidden.weight", Issue::vanishing,
                "Its root mean square is");
  check_finding(diagnosis(Net([](const Tensor& h) { return h * 1e6; })), "hidden.weight", Issue::exploding,
                "Its root mean square is");
  check_finding(diagnosis(Net([](const Tensor& h) { return sqrt(h * 0); })), "hidden.weight", Issue::not_finite,
                "DetectAnomaly");
}

TEST_CASE("dead units of a ReLU are counted over all inputs", "[diagnose]") {
  manual_seed(3);
  Net net([](const Tensor& h) { return relu(h); });
  net.unused.freeze();
  {
    const NoGrad no_grad;
    net.hidden.weight.fill_(1);
    net.hidden.bias.copy_(tensor({-100., 1., -100., 1., -100., 1., 1., 1.}));
  }
  const nn::Diagnosis d = diagnosis(net);
  check_finding(d, "Net", Issue::dead_units, "3 of 8 units of relu were 0 for all 6 inputs");
  REQUIRE(d.activations.size() == 1);
  CHECK(d.activations[0].count == 8);
  CHECK(d.activations[0].silent == 3);
  const auto few = nn::DiagnoseOptions().dead(0.5);
  CHECK(nn::diagnose(
            net,
            [&] {
              return mean(net(rand({6, 4})));
            },
            few)
            .healthy());
  // Channels of images stand on the second axis.
  struct Images final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return relu(x * weight); }
    FIT_FIELDS_ONLY(weight)
    nn::Parameter weight{tensor({1., -1., 1., -1.}).reshape({1, 4, 1, 1})};
  } images;
  const nn::Diagnosis of_images = nn::diagnose(images, [&] { return mean(images(ones({2, 4, 3, 3}))); });
  check_finding(of_images, "Images", Issue::dead_units, "2 of 4 units of relu were 0 for all 18 inputs");
}

TEST_CASE("saturated attention and softmax are counted where there is a choice", "[diagnose]") {
  manual_seed(4);
  nn::CausalSelfAttention attention(8, 2, 0.0);
  const Tensor x = randn({2, 5, 8});
  const auto looked_at = [&] { return nn::diagnose(attention, [&] { return mean(square(attention(x))); }); };
  nn::Diagnosis d = looked_at();
  INFO(d);
  REQUIRE(d.activations.size() == 1);
  CHECK(d.activations[0].count == 8);  // the first of 5 queries sees itself alone, in both heads
  CHECK(d.activations[0].silent == 0);
  CHECK(d.healthy());  // the key's bias included, whose gradient is 0
  {
    const NoGrad no_grad;
    attention.parameter("multihead_attn.w_q.weight").mul_(1000);
  }
  d = looked_at();
  const auto saturated = std::find_if(d.findings.begin(), d.findings.end(),
                                      [](const nn::Finding& f) { return f.what == Issue::saturated; });
  INFO(d);
  REQUIRE(saturated != d.findings.end());
  CHECK_THAT(saturated->text, Contains("of 8 rows of attention have a weight above 0.999"));
  struct Plain final : nn::UnaryLayer {
    Tensor forward(const Tensor& z) const override { return softmax(z + weight); }
    FIT_FIELDS_ONLY(weight)
    nn::Parameter weight{tensor({100., 0., 0.})};
  } plain;
  const auto of_inputs = [&](const Tensor& z) { return nn::diagnose(plain, [&] { return sum(square(plain(z))); }); };
  check_finding(of_inputs(ones({4, 3})), "Plain", Issue::saturated, "4 of 4 rows of softmax");
  const Tensor row = tensor({900., 0., 0.}), hidden = tensor({0., -1e9, -std::numeric_limits<double>::infinity()});
  check_finding(of_inputs(row * ones({4, 1})), "Plain", Issue::saturated, "4 of 4 rows of softmax");  // e^-1000 is 0
  CHECK_FALSE(found(of_inputs(hidden + zeros({4, 1})), "Plain"));
}

TEST_CASE("a diagnosis leaves everything as it was, and a healthy transformer has no findings", "[diagnose]") {
  manual_seed(5);
  const auto o = nn::GPTOptions().vocab_size(17).context_length(8).d_model(16).num_heads(2).num_layers(2).dropout(0.1);
  nn::GPT gpt(o);
  const Tensor ids = randint(0, 17, {3, 8}), targets = randint(0, 17, {3, 8});
  gpt.loss(ids, targets).backward();
  const auto before = gpt.named_parameters();
  std::vector<Tensor> gradients;
  for (const auto& [name, p] : before) gradients.push_back(p.grad().clone());
  const auto calls = default_generator().calls();
  const nn::Diagnosis d = nn::diagnose(gpt, [&] { return gpt.loss(ids, targets); });
  INFO(d);
  CHECK(d.healthy());
  CHECK(default_generator().calls() == calls);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_bits(before[i].second.grad(), gradients[i]));
  CHECK(d.loss == Approx(gpt.loss(ids, targets).item()));  // the same random numbers
  CHECK_THAT(d.str(), Contains("Nothing was found") && Contains("rows of attention saturated"));
  CHECK_THROWS_WITH(nn::diagnose(gpt, [&] { return gpt(ids); }), Contains("[diagnose]") && Contains("one floating"));
  CHECK_THROWS_WITH(nn::diagnose(gpt, nullptr), Contains("[diagnose] the loss is empty"));
}

TEST_CASE("what gets a gradient and is not trained is found", "[diagnose]") {
  struct Hidden final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return behind->forward(listed(x)) * scale; }
    FIT_FIELDS_ONLY(listed)
    nn::Linear listed{2, 2};
    std::unique_ptr<nn::Linear> behind = std::make_unique<nn::Linear>(2, 1, false);
    Tensor scale = ones({1}).requires_grad_();
  } net;
  const auto loss = [&] { return sum(square(net(ones({4, 2})))); };
  nn::Diagnosis d = nn::diagnose(net, loss);
  std::vector<std::string> texts;
  for (const nn::Finding& f : d.findings)
    if (f.what == Issue::untrained) texts.push_back(f.name + ": " + f.text);
  REQUIRE(texts.size() == 2);
  CHECK_THAT(texts[0], Contains("Hidden: A leaf of shape [1, 2] that linear in Hidden reads gets a gradient, but is no "
                                "parameter of the model"));
  CHECK_THAT(texts[1], Contains("Hidden: A leaf of shape [1] that mul in Hidden reads"));

  optim::SGD some({net.listed.weight, net.scale, net.behind->weight}, 0.1);
  d = nn::diagnose(net, loss, nn::DiagnoseOptions().trained(some.trained()));
  check_finding(d, "listed.bias", Issue::untrained, "The optimiser does not have it");
  CHECK(d.findings.size() == 1);
  optim::SGD all({net.listed.weight, net.listed.bias, net.scale, net.behind->weight}, 0.1);
  CHECK(nn::diagnose(net, loss, nn::DiagnoseOptions().trained(all.trained())).healthy());
}

TEST_CASE("a diagnosis finds in checkpointed blocks what it finds in plain ones, and no more", "[diagnose]") {
  const auto o = nn::GPTOptions().vocab_size(17).context_length(8).d_model(16).num_heads(2).num_layers(3).dropout(0);
  const Tensor ids = randint(0, 17, {3, 8}), targets = randint(0, 17, {3, 8});
  const auto of_gpt = [&](bool checkpointed, double frozen_scale) {
    manual_seed(5);
    nn::GPT gpt(nn::GPTOptions(o).checkpoint_blocks(checkpointed));
    const NoGrad no_grad;
    gpt.h[1].named_parameters()[0].second.fill_(frozen_scale);
    return nn::diagnose(gpt, [&] { return gpt.loss(ids, targets); });
  };
  const nn::Diagnosis plain = of_gpt(false, 1), checkpointed = of_gpt(true, 1);
  CHECK(checkpointed.healthy());
  CHECK(checkpointed.str() == plain.str());
  const nn::Diagnosis broken = of_gpt(true, 0);
  CHECK_FALSE(broken.healthy());
  CHECK(broken.str() == of_gpt(false, 0).str());

  struct Hidden final : nn::UnaryLayer {
    Tensor inside(const Tensor& x) const { return behind->forward(listed(x)) * scale; }
    Tensor forward(const Tensor& x) const override {
      return checkpoint([this](const Tensor& z) { return inside(z); },
                        checkpoint([this](const Tensor& z) { return first(z); }, x));
    }
    FIT_FIELDS_ONLY(first, listed)
    nn::Linear first{2, 2}, listed{2, 2};
    std::unique_ptr<nn::Linear> behind = std::make_unique<nn::Linear>(2, 1, false);
    Tensor scale = ones({1}).requires_grad_();
  } net;
  const nn::Diagnosis d = nn::diagnose(net, [&] { return sum(square(net(ones({4, 2})))); });
  INFO(d);
  REQUIRE(d.findings.size() == 2);
  CHECK_THAT(d.findings[0].text, Contains("A leaf of shape [1, 2] that linear in Hidden reads gets a gradient"));
  CHECK_THAT(d.findings[1].text, Contains("A leaf of shape [1] that mul in Hidden reads gets a gradient"));
}

}  // namespace fit::test::diagnose_test
