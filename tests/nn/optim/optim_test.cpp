#include "fit/nn/optim/optim.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/optim/more/lbfgs.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "support/catch.hpp"
#include "support/optimizer_groups.hpp"
#include "support/tensors.hpp"
#include "support/thread_world.hpp"

namespace fit::test::optim_test {
using Catch::Contains;
using fit::test::same_bits;

namespace {

Tensor leaf(const Tensor& value) { return value.clone().requires_grad_(); }

}  // namespace

// The others are held against PyTorch's (golden_test.cpp), which has no Lion.
TEST_CASE("Lion follows its formula") {
  const optim::LionOptions o = optim::LionOptions().lr(0.02).beta1(0.7).beta2(0.95).weight_decay(0.3);
  Generator random(8);
  Tensor w = randn({7, 5}, float64, random).requires_grad_();
  std::vector<double> p = w.detach().to_vector<double>(), m(p.size());
  optim::Lion lion({w}, o);
  for (int t = 0; t < 50; ++t) {
    w.set_grad(randn({7, 5}, float64, random) * (t % 12 + 1.));
    const std::vector<double> g = w.grad().to_vector<double>();
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double c = o.beta1() * m[i] + (1 - o.beta1()) * g[i];
      p[i] -= o.lr() * ((c > 0) - (c < 0) + o.weight_decay() * p[i]);
      m[i] = o.beta2() * m[i] + (1 - o.beta2()) * g[i];
    }
    const std::uint32_t version = w.version();
    lion.step();
    CHECK(w.version() > version);
  }
  CHECK(test::max_difference(w.detach(), tensor(p, {7, 5})) < 1e-12);
  Tensor exact = leaf(tensor({1., 1., 1.}));
  exact.set_grad(tensor({100., -0.01, 0.}));
  optim::Lion({exact}, 0.25).step();
  CHECK(exact.detach().to_vector<float>() == std::vector<float>{.75f, 1.25f, 1});
}

// Its paper's algorithm 2, in plain loops, on a matrix and on a vector of zeros, whose ratio is 1 at first.
TEST_CASE("LAMB follows its paper's formula") {
  const auto o = optim::LAMBOptions().lr(0.05).beta1(0.8).beta2(0.95).weight_decay(0.1);
  const std::vector<std::vector<double>> gradients[2] = {{{.1, -.2, .3, .4}, {-.5, .25, .125, 1.}, {.2, .1, -.4, .3}},
                                                         {{1., -2.}, {.5, .5}, {-1., .25}}};
  Tensor matrix = leaf(tensor({{1., -2.}, {0.5, 3.}}, float64)), vector = leaf(zeros({2}, float64));
  std::vector<double> right[2] = {matrix.detach().to_vector<double>(), {0, 0}}, m[2], v[2];
  for (int i : {0, 1}) m[i].resize(right[i].size()), v[i].resize(right[i].size());
  optim::LAMB lamb({matrix, vector}, o);
  for (int t = 1; t <= 3; ++t) {
    matrix.set_grad(tensor(gradients[0][t - 1], {2, 2}));
    vector.set_grad(tensor(gradients[1][t - 1], {2}));
    lamb.step();
    for (int i : {0, 1}) {
      std::vector<double> u(right[i].size());
      double size = 0, length = 0;
      for (std::size_t k = 0; k < u.size(); ++k) {
        const double g = gradients[i][t - 1][k];
        m[i][k] = 0.8 * m[i][k] + 0.2 * g;
        v[i][k] = 0.95 * v[i][k] + 0.05 * g * g;
        const double r = m[i][k] / (1 - std::pow(0.8, t)) / (std::sqrt(v[i][k] / (1 - std::pow(0.95, t))) + 1e-6);
        u[k] = r + 0.1 * right[i][k];
        size += right[i][k] * right[i][k], length += u[k] * u[k];
      }
      const double ratio = size > 0 && length > 0 ? std::sqrt(size / length) : 1;
      for (std::size_t k = 0; k < u.size(); ++k) right[i][k] -= 0.05 * ratio * u[k];
    }
    CHECK(max_difference(matrix.detach(), tensor(right[0], {2, 2})) < 1e-14);
    CHECK(max_difference(vector.detach(), tensor(right[1], {2})) < 1e-14);
  }
  // The same numbers, by another program.
  CHECK(max_difference(matrix.detach(),
                       tensor({{0.9829016439941226, -1.9327655869162914}, {0.33068798869397037, 2.5868704266055027}},
                              float64)) < 1e-14);
  CHECK(max_difference(vector.detach(), tensor({-0.053448178204259046, 0.055165596614034175}, float64)) < 1e-14);
  CHECK(optim::LAMBOptions().eps() == 1e-6);
  CHECK(optim::LAMBOptions().weight_decay() == 0.01);
}

TEST_CASE("the first step of Adam is the learning rate, whatever the gradient") {
  Tensor p = leaf(tensor({1., 1., 1.}));
  p.set_grad(tensor({100., -0.01, 0.}));
  optim::Adam({p}, 0.1).step();
  CHECK(p.detach().to_vector<float>()[0] == Approx(0.9));
  CHECK(p.detach().to_vector<float>()[1] == Approx(1.1));
  CHECK(p.detach().to_vector<float>()[2] == 1);
}

TEST_CASE("an average whose decay is below a half keeps a small gradient after a large one") {
  Tensor w = leaf(zeros({40}));
  optim::Adam optimizer({w}, optim::AdamOptions().beta1(0).beta2(0).lr(0.1));
  for (const double g : {1e4, 1e-4, 1e-4}) {
    w.set_grad(full({40}, g));
    optimizer.step();
  }
  CHECK(max_difference(w.detach(), full({40}, -0.3)) < 1e-4);
}

TEST_CASE("averages of a gradient that stays 0 become 0, except where they divide each other") {
  const auto averages = [](double eps) {
    Tensor w = leaf(tensor({1., 2., 3.}));
    optim::Adam adam({w}, optim::AdamOptions().beta2(0.8).eps(eps));
    for (int t = 0; t < 1500; ++t) {
      w.set_grad(tensor({t == 0 ? 1. : 0., t == 0 ? -1. : 0., 1.}));
      adam.step();
    }
    CHECK(all(isfinite(w.detach())).item<bool>());
    const StateDict states = adam.state_dict();
    std::vector<std::vector<float>> found;
    for (const auto& [name, state] : states)
      if (state.numel() == 3) found.push_back(state.to_vector<float>());
    return found;
  };
  const float least = std::numeric_limits<float>::min();
  for (const std::vector<float>& a : averages(1e-8)) CHECK((a[0] == 0 && a[1] == 0 && a[2] > 0.9F));
  for (const std::vector<float>& a : averages(0)) CHECK((a[0] > 0 && a[0] < least && a[2] > 0.9F));
  // Of a formula that consists of operations.
  Tensor w = leaf(ones({2, 2}));
  optim::Muon muon({w}, optim::MuonOptions().momentum(0.5));
  for (int t = 0; t < 130; ++t) {
    w.set_grad(t == 0 ? ones({2, 2}) : tensor({{0., 0.}, {1., 1.}}));
    muon.step();
  }
  for (const auto& [name, state] : muon.state_dict())
    if (state.numel() == 4) CHECK(state.to_vector<float>() == std::vector<float>{0, 0, 1, 1});
}

TEST_CASE("steps do not depend on the number of threads") {
  const int threads = num_threads();
  const auto run = [](int n) {
    set_num_threads(n);
    Generator random(3);
    Tensor large = randn({3, 40001}, float32, random).requires_grad_(), small = leaf(ones({5})),
           wide = randn({70000}, float64, random).requires_grad_(), empty = leaf(zeros({0}));
    optim::AdamW adam({small, large, wide, empty}, 0.1);
    optim::SGD sgd({small, large, wide, empty}, 0.1, 0.9);
    optim::RMSprop rmsprop(
        {small, large, wide, empty},
        optim::RMSpropOptions().lr(0.01).alpha(0.99).eps(1e-8).weight_decay(0).momentum(0.9).centered());
    optim::Lion lion({small, large, wide, empty}, 0.1);
    optim::ExponentialMovingAverage average({small, large, wide, empty}, 0.5);
    for (int t = 0; t < 3; ++t) {
      for (Tensor p : {small, large, wide, empty}) p.set_grad(randn(p.shape(), p.dtype(), random));
      optim::clip_grad_norm_({small, large, wide, empty}, 1);
      adam.step();
      sgd.step();
      rmsprop.step();
      lion.step();
      average.update();
    }
    return std::vector<Tensor>{large.detach(), small.detach(), wide.detach(), average.state_dict()[1].second};
  };
  const std::vector<Tensor> one = run(1), three = run(3);
  set_num_threads(threads);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
}

TEST_CASE("divided averages change no bit, and send each rank's rows alone") {
  // Of the last element, a rank has it or none; what lies behind a parameter is not its own.
  struct Trained {
    std::vector<Tensor> values;
    StateDict state;
    double sent = 0;
  };
  const auto train = [](dist::World* world, int divided_at) {
    Generator random(5);
    const Tensor base = randn({2 * 1026}, float32, random);
    std::vector<Tensor> all{leaf(randn({7, 5}, float32, random)), leaf(randn({11}, float64, random)),
                            leaf(randn({1}, float32, random)), leaf(zeros({0})),
                            slice(base, 0, 0, 1026).detach().requires_grad_()};
    optim::AdamW optimizer(all, 0.1);
    for (int t = 0; t < 3; ++t) {
      if (world && t == divided_at) optimizer.shard(*world);
      for (Tensor p : all) p.set_grad(randn(p.shape(), p.dtype(), random));
      optimizer.step();
    }
    Trained trained;
    trained.sent = world ? world->bytes_sent() : 0;
    for (const Tensor& p : all) trained.values.push_back(p.detach());
    trained.values.push_back(base);
    trained.state = optimizer.state_dict();
    return trained;
  };
  const Trained alone = train(nullptr, 0);
  for (const int size : {2, 3})
    for (const int divided_at : {0, 1}) {
      CAPTURE(size, divided_at);
      std::vector<Trained> ranks(static_cast<std::size_t>(size));
      test::on_ranks(size, [&](dist::World& w) { ranks[static_cast<std::size_t>(w.rank())] = train(&w, divided_at); });
      for (const Trained& rank : ranks) {
        for (std::size_t i = 0; i < alone.values.size(); ++i) CHECK(same_bits(rank.values[i], alone.values[i]));
        REQUIRE(rank.state.size() == alone.state.size());
        for (std::size_t i = 0; i < alone.state.size(); ++i) {
          CHECK(rank.state[i].first == alone.state[i].first);
          CHECK(same_bits(rank.state[i].second, alone.state[i].second));
        }
        // In each step rank 0's rows, up to a multiple of 64 bytes (what two ranks have is one), to each of the others.
        const int rows = (35 + size - 1) / size + 1 + 1026 / size, wide = (11 + size - 1) / size;
        CHECK(rank.sent == (3. - divided_at) * (size - 1) * ((4 * rows + 8 * wide + 63) / 64 * 64));
      }
    }
}

TEST_CASE("Adafactor leaves a parameter without slope where it is") {
  for (const Shape& shape : {Shape{3}, Shape{2, 3}}) {
    Tensor p = leaf(ones(shape));
    optim::Adafactor optimizer({p});
    p.set_grad(zeros(shape));
    optimizer.step();
    CHECK(same_bits(p.detach(), ones(shape)));
  }
}

TEST_CASE("what has no gradient or is frozen is left alone") {
  nn::Linear layer(2, 2);
  layer.bias.freeze();
  const Tensor bias = layer.bias.clone(), x = ones({1, 2});
  optim::AdamW optimizer(layer.parameters(), 0.1);
  const Tensor weight = layer.weight.detach().clone();
  optimizer.step();  // no gradients yet
  CHECK(same_bits(layer.weight.detach(), weight));
  CHECK(optimizer.state_dict().back().first == "amsgrad.0");  // options, and nothing of a parameter
  sum(layer(x)).backward();
  optimizer.step();
  CHECK_FALSE(same_bits(layer.weight.detach(), weight));
  CHECK(same_bits(layer.bias, bias));
  optimizer.zero_grad();
  CHECK_FALSE(layer.weight.has_grad());
}

namespace {

// A frozen body of bfloat16 under a float32 head.
struct OnBfloat16 : nn::Layer {
  OnBfloat16() {
    body.to(bfloat16);
    body.freeze();
  }
  Tensor loss() const { return sum(square(head(body(ones({1, 2}, bfloat16)).to(float32)))); }
  FIT_FIELDS(body, head)
  nn::Linear body{2, 3, false}, head{3, 1, false};  // matrices, for Muon
};

template <class Optimizer>
void check_beside_bfloat16() {
  INFO(typeid(Optimizer).name());
  OnBfloat16 model;
  const Tensor body = model.body.weight.clone(), head = model.head.weight.detach().clone();
  Optimizer optimizer(model.named_parameters());
  model.loss().backward();
  optimizer.step();
  CHECK(same_bits(model.body.weight, body));
  CHECK_FALSE(same_bits(model.head.weight.detach(), head));

  // One that is unfrozen later is told at the step, and nothing has changed.
  model.body.unfreeze();
  const Tensor now = model.head.weight.detach().clone();
  optimizer.zero_grad();
  model.loss().backward();
  CHECK_THROWS_WITH(optimizer.step(), Contains("the parameter body.weight is bfloat16, in which small steps are lost"));
  CHECK(same_bits(model.head.weight.detach(), now));
  CHECK_THROWS_WITH(Optimizer(model.named_parameters()), Contains("the parameter body.weight is bfloat16"));
}

}  // namespace

TEST_CASE("every optimiser leaves frozen parameters alone, bfloat16 or not, and refuses to train bfloat16") {
  each_optimizer([](auto* type) { check_beside_bfloat16<std::decay_t<decltype(*type)>>(); });

  OnBfloat16 model;
  const Tensor body = model.body.weight.clone(), head = model.head.weight.detach().clone();
  optim::LBFGS optimizer(model.named_parameters());
  const auto closure = [&] {
    optimizer.zero_grad();
    const Tensor loss = model.loss();
    loss.backward();
    return loss;
  };
  optimizer.step(closure);
  CHECK(same_bits(model.body.weight, body));
  CHECK_FALSE(same_bits(model.head.weight.detach(), head));
  model.body.unfreeze();
  const Tensor now = model.head.weight.detach().clone();
  CHECK_THROWS_WITH(optimizer.step(closure), Contains("[LBFGS] the parameter body.weight is bfloat16"));
  CHECK(same_bits(model.head.weight.detach(), now));
}

TEST_CASE("groups have options of their own") {
  Tensor a = leaf(ones({2})), b = leaf(ones({2}));
  optim::SGD optimizer({{{a}, optim::SGDOptions().lr(0.1)}, {{b}, optim::SGDOptions().lr(0.01).weight_decay(10)}});
  CHECK(optimizer.groups() == 2);
  CHECK(optimizer.lr(1) == 0.01);
  CHECK_THROWS_WITH(optimizer.set_lr(2, 0.1), Contains("[SGD] there is no group 2: there are 2"));
  a.set_grad(ones({2}));
  b.set_grad(ones({2}));
  optimizer.step();
  CHECK(a.detach().to_vector<float>()[0] == Approx(0.9));
  CHECK(b.detach().to_vector<float>()[0] == Approx(1 - 0.01 * 11));
  optimizer.set_lr(0, 0.5);
  CHECK(optimizer.lr(0) == 0.5);
  CHECK(optimizer.lr(1) == 0.01);
  optimizer.set_lr(0);
  optimizer.options(1).weight_decay(0);
  optimizer.step();
  CHECK(a.detach().to_vector<float>()[0] == Approx(0.9));
}

TEST_CASE("the parameters of several layers are joined in braces") {
  nn::Linear encoder(2, 3), decoder(3, 1);
  const Tensor scale = ones({}).requires_grad_();
  const auto names = [](const optim::Optimizer& optimizer) {
    std::vector<std::string> all;
    for (const auto& [name, parameter] : optimizer.named_parameters()) all.push_back(name);
    return all;
  };
  optim::SGD optimizer({encoder.parameters(), decoder.parameters(), scale}, 1);
  CHECK(names(optimizer) == std::vector<std::string>{"0", "1", "2", "3", "4"});
  CHECK(names(optim::Adam({encoder.named_parameters(), scale})) == std::vector<std::string>{"weight", "bias", "2"});
  CHECK_THROWS_WITH(optim::Adam({encoder.named_parameters(), decoder.named_parameters()}),
                    Contains("the name weight is there twice"));
  CHECK_THROWS_WITH(optim::Adam({encoder.parameters(), encoder.bias}), Contains("of shape [3] is there twice"));
  for (const Tensor& p : optimizer.trained()) Tensor(p).set_grad(ones_like(p));
  CHECK(optim::clip_grad_norm_({encoder.parameters(), decoder.parameters(), scale}, 1) == Approx(std::sqrt(14.)));
  optimizer.step();
  CHECK(scale.item() == Approx(1 - 1 / std::sqrt(14.)));
  optim::ExponentialMovingAverage average({encoder.parameters(), decoder.parameters()}, 0.5);
  CHECK(average.state_dict().size() == 4);
}

TEST_CASE("a result from before a step can't be differentiated after it, and must be computed anew") {
  nn::Linear generator(2, 2), critic(2, 1);
  optim::SGD optimizer(critic.parameters(), 0.1);
  const Tensor made = generator(ones({1, 2})), score = sum(critic(made));
  score.backward(retain_graph);
  optimizer.step();
  CHECK_THROWS_WITH(score.backward(), Contains("of shape [1, 2] that linear needs") &&
                                          Contains("(version 1 then, 2 now)") &&
                                          Contains("compute the result anew after the step"));
  generator.zero_grad();
  sum(critic(made)).backward();  // of the critic after its step
  CHECK(equal(generator.bias.grad(), critic.weight.detach()[0]));
}

TEST_CASE("weight decay is for matrices, and for embeddings on request") {
  const nn::Sequential net(nn::Embedding(5, 4), nn::LayerNorm(4), nn::Linear(4, 3));
  const auto names = [](const optim::Parameters& parameters) {
    std::vector<std::string> list;
    for (const auto& [name, p] : parameters.named()) list.push_back(name);
    return list;
  };
  auto groups =
      optim::decay_groups(net, optim::AdamWOptions().lr(0.1).beta1(0.9).beta2(0.95).eps(1e-8).weight_decay(0.3));
  REQUIRE(groups.size() == 2);
  CHECK(names(groups[0].parameters) == std::vector<std::string>{"0.weight", "2.weight"});
  CHECK(names(groups[1].parameters) == std::vector<std::string>{"1.weight", "1.bias", "2.bias"});
  CHECK(groups[0].options.weight_decay() == 0.3);
  CHECK(groups[1].options.weight_decay() == 0);
  CHECK(groups[1].options.beta2() == 0.95);
  CHECK(optim::AdamW(groups).groups() == 2);
  groups = optim::decay_groups(net, optim::AdamWOptions{}, optim::DecayEmbeddings::no);
  CHECK(names(groups[0].parameters) == std::vector<std::string>{"2.weight"});
  CHECK(names(groups[1].parameters) == std::vector<std::string>{"0.weight", "1.weight", "1.bias", "2.bias"});
  CHECK(optim::decay_groups(nn::Linear(2, 2, false), optim::SGDOptions().lr(0.1)).size() == 1);
}

TEST_CASE("optimisers refuse bad arguments") {
  const Tensor p = leaf(ones({2}));
  CHECK_THROWS_WITH(optim::SGD({p}, -1.), Contains("[SGD] lr is -1"));
  CHECK_THROWS_WITH(optim::SGD({p}, 0.1, -1.), Contains("momentum is -1"));
  CHECK_THROWS_WITH(optim::SGD({p}, optim::SGDOptions().lr(0.1).momentum(0).dampening(0).weight_decay(0).nesterov()),
                    Contains("nesterov needs momentum"));
  CHECK_THROWS_WITH(
      optim::SGD({p}, optim::SGDOptions().lr(0.1).momentum(0.9).dampening(0.1).weight_decay(0).nesterov()),
      Contains("no dampening"));
  CHECK_THROWS_WITH(optim::Adam({p}, optim::AdamOptions().lr(1e-3).beta1(1.0)), Contains("[Adam] beta1 is 1"));
  CHECK_THROWS_WITH(optim::AdamW({p}, optim::AdamWOptions().lr(1e-3).beta1(0.9).beta2(0.999).eps(-1)),
                    Contains("[AdamW] eps is -1"));
  CHECK_THROWS_WITH(optim::AdamW({p}, std::nan("")), Contains("lr is nan"));
  CHECK_THROWS_WITH(optim::RMSprop({p}, optim::RMSpropOptions().lr(1e-2).alpha(1.0)), Contains("[RMSprop] alpha is 1"));
  CHECK_THROWS_WITH(
      optim::RMSprop({p}, optim::RMSpropOptions().lr(1e-2).alpha(0.9).eps(1e-8).weight_decay(0).momentum(-1)),
      Contains("momentum is -1"));
  CHECK_THROWS_WITH(optim::Adagrad({p}, optim::AdagradOptions().lr(1e-2).lr_decay(-1)),
                    Contains("[Adagrad] lr_decay is -1"));
  CHECK_THROWS_WITH(
      optim::Adagrad({p}, optim::AdagradOptions().lr(1e-2).lr_decay(0).weight_decay(0).initial_accumulator_value(-1)),
      Contains("initial_accumulator_value is -1"));
  CHECK_THROWS_WITH(
      optim::NAdam({p},
                   optim::NAdamOptions().lr(1e-2).beta1(0.9).beta2(0.999).eps(1e-8).weight_decay(0).momentum_decay(-1)),
      Contains("[NAdam] momentum_decay is -1"));
  CHECK_THROWS_WITH(optim::RAdam({p}, optim::RAdamOptions().lr(1e-2).beta1(0.9).beta2(1.5)),
                    Contains("[RAdam] beta2 is 1.5"));
  CHECK_THROWS_WITH(optim::Adamax({p}, optim::AdamaxOptions().lr(1e-2).beta1(-0.1)),
                    Contains("[Adamax] beta1 is -0.1"));
  CHECK_THROWS_WITH(optim::Lion({p}, optim::LionOptions().lr(1e-2).beta1(0.9).beta2(0.99).weight_decay(-1)),
                    Contains("[Lion] weight_decay is -1"));
  CHECK_THROWS_WITH(optim::SGD(std::vector<Tensor>{}, 0.1), Contains("has no parameters"));
  CHECK_THROWS_WITH(optim::SGD({p, p}, 0.1), Contains("the parameter 1 of shape [2] is there twice"));
  CHECK_THROWS_WITH(optim::SGD({{{p}, {}}, {{p}, {}}}), Contains("there twice"));
  CHECK_THROWS_WITH(optim::SGD({p * 2}, 0.1), Contains("is the result of mul"));
  CHECK_THROWS_WITH(optim::SGD({Tensor()}, 0.1), Contains("undefined"));
  CHECK_THROWS_WITH(optim::SGD({zeros({2}, int64)}, 0.1), Contains("int64"));
}

TEST_CASE("every optimiser refuses each of its options where it is not a number") {
  each_optimizer([](auto* type) {
    using Optimizer = std::decay_t<decltype(*type)>;
    Optimizer optimizer({leaf(ones({2, 2}))}, 0.1);
    const StateDict good = optimizer.state_dict();
    std::size_t numbers = 0;
    for (std::size_t i = 0; i < good.size(); ++i) {
      const double number = good[i].second.item();
      if (number == 0) continue;  // a switch, perhaps
      ++numbers;
      INFO(good[i].first);
      StateDict bad = good;
      bad[i].second = full({}, std::nan(""), float64);
      CHECK_THROWS_AS(optimizer.load_state_dict(bad), Error);
      CHECK(optimizer.state_dict()[i].second.item() == number);
    }
    CHECK(numbers >= 1);
    optimizer.options().lr(INFINITY);
    CHECK_THROWS_WITH(optimizer.step(), Contains("lr is inf: it must be finite"));
  });
}

TEST_CASE("a parameter that is converted after the first step is refused by name") {
  nn::Linear layer(2, 1);
  optim::Adam optimizer(layer.named_parameters(), 0.1);
  sum(layer(ones({1, 2}))).backward();
  optimizer.step();
  layer.to(float64);
  sum(layer(ones({1, 2}, float64))).backward();
  CHECK_THROWS_WITH(optimizer.step(), Contains("the parameter weight is float64, its exp_avg float32"));
}

TEST_CASE("a group can be added later") {
  Tensor a = leaf(ones({2})), b = leaf(ones({2}));
  optim::SGD optimizer({a}, 0.1, 0.9);
  a.set_grad(ones({2}));
  b.set_grad(ones({2}));
  optimizer.step();
  optimizer.add_param_group({{b}, optim::SGDOptions().lr(0.5)});
  CHECK(optimizer.groups() == 2);
  optimizer.step();
  CHECK(a.detach().to_vector<float>()[0] == Approx(1 - 0.1 - 0.1 * 1.9));
  CHECK(b.detach().to_vector<float>()[0] == 0.5);
  CHECK_THROWS_WITH(optimizer.add_param_group({{b}, {}}), Contains("there twice"));
  CHECK_THROWS_WITH(optimizer.add_param_group({{leaf(ones({1}))}, optim::SGDOptions().lr(-1)}), Contains("lr is -1"));
  CHECK(optimizer.groups() == 2);
  CHECK(optimizer.state_dict().back().first == "1.step");
}

// ---- learning -----------------------------------------------------------------------------------------------------

TEST_CASE("a small network learns XOR") {
  manual_seed(1);
  nn::Sequential net(nn::Linear(2, 8), nn::Tanh(), nn::Linear(8, 2));
  const Tensor x = tensor({{0., 0.}, {0., 1.}, {1., 0.}, {1., 1.}}), y = tensor({0, 1, 1, 0});
  optim::AdamW optimizer(net.named_parameters(), 0.05);
  const nn::CrossEntropyLoss loss;
  const double before = loss(net(x), y).item();
  for (int t = 0; t < 200; ++t) {
    optimizer.zero_grad();
    loss(net(x), y).backward();
    optimizer.step();
  }
  CHECK(before > 0.5);
  CHECK(loss(net(x), y).item() < 0.05);
}

TEST_CASE("an optimiser tells of parameters that no layer holds any more") {
  nn::Sequential net(nn::Linear(2, 3), nn::Linear(3, 1));
  optim::SGD optimizer(net.named_parameters(), 0.1);
  const auto step = [&] {
    optimizer.zero_grad();
    sum(net(ones({4, 2}))).backward();
    optimizer.step();
  };
  step();
  net.replace(1, nn::Linear(3, 1));
  const Tensor before = net.parameters()[0].detach().clone();
  CHECK_THROWS_WITH(step(), Contains("[SGD] the parameter 1.weight of shape [1, 3] belongs to no layer any more: its "
                                     "layer was replaced or destroyed. Make the optimiser after"));
  CHECK(same_bits(net.parameters()[0].detach(), before));
  net.replace(1, nn::Linear(3, 1));
  std::optional<nn::Linear> gone(std::in_place, 2, 1);
  optim::Adam adam(gone->parameters(), 0.1);
  gone.reset();
  CHECK_THROWS_WITH(adam.step(), Contains("[Adam] the parameter 0 of shape [1, 2] belongs to no layer"));
}

TEST_CASE("a step with error_if_nonfinite names the gradient and keeps the parameters") {
  nn::Linear layer(2, 1);
  optim::Adam optimizer(layer.named_parameters(), 0.1);
  const auto step = [&](double scale) {
    optimizer.zero_grad();
    (sum(layer(ones({1, 2}))) * scale).backward();
    optimizer.step(optim::error_if_nonfinite);
  };
  step(1);
  const Tensor weight = layer.weight.detach().clone();
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_WITH(step(bad),
                      Contains("[Adam] the gradient of weight holds an infinity or NaN: nothing was changed"));
    CHECK(same_bits(layer.weight.detach(), weight));
  }
  step(1);
  CHECK_FALSE(same_bits(layer.weight.detach(), weight));
}

}  // namespace fit::test::optim_test
