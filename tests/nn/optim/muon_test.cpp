// Muon beside PyTorch's (tests/golden/training.py), and its groups.
#include "fit/nn/optim/muon.hpp"

#include <cmath>

#include "fit/graph/graph.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/optim/schedule.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/oracles/optimizer_path.hpp"
#include "support/tensors.hpp"

namespace fit::test::muon_test {
namespace {

using Catch::Contains;
using optim::Muon;
using optim::MuonOptions;

double distance(const std::string& form, const std::string& path, const MuonOptions& o, DType dtype) {
  return distance_from_path<Muon>("muon/" + form, path, o, dtype);
}

nn::GPTOptions muon_gpt() {
  return nn::GPTOptions().vocab_size(9).context_length(8).num_layers(2).num_heads(2).d_model(8);
}

}  // namespace

TEST_CASE("Muon follows PyTorch's path", "[golden][muon]") {
  const auto all = MuonOptions().lr(0.02).weight_decay(0.3).momentum(0.8).nesterov(false).ns_steps(3).match_rms_adamw();
  for (const std::string form : {"tall", "wide"})
    for (const auto& [name, o] : {std::pair("plain", MuonOptions()), std::pair("all", all)}) {
      INFO(form << ' ' << name);
      CHECK(distance(form, std::string(name) + "_exact", o, float64) < 1e-12);
      CHECK(distance(form, std::string(name) + "_exact", o, float32) < 1e-5);
      // PyTorch rounds each product to bfloat16. A step has at most rate 20 lr, and 1 / 256 of it is rounded away.
      const double rounding = 20 * o.lr() / 32;
      CHECK(distance(form, name, o, float32) < rounding);
      CHECK(distance(form, name, MuonOptions(o).bfloat16(), float32) < rounding);
    }
}

TEST_CASE("three steps of Polar Express bring singular values of 0.01 to 1 as near to 1 as promised", "[muon]") {
  const auto express = MuonOptions().polar_express();
  const auto brought = [&](const MuonOptions& o, double value) {  // the rest of the norm lies in another direction
    const Tensor x = tensor({{value, 0.}, {0., std::sqrt(1 - value * value)}});
    return optim::detail::orthogonalized(x, o)[{0, 0}].item();
  };
  double least = 2, most = 0, four = 0, last = 0;
  for (double value = 0.01; value <= 1; value *= 1.01) {
    const double y = brought(MuonOptions(express).ns_steps(3), value);
    least = std::min(least, y), most = std::max(most, y);
    four = std::max(four, std::abs(brought(MuonOptions(express).ns_steps(4), value) - 1));
    last = std::max(last, std::abs(brought(MuonOptions(express).ns_steps(6), value) - 1));
  }
  CHECK(least == Approx(0.7264).margin(1e-3));
  CHECK(most == Approx(1.2736).margin(1e-3));
  CHECK(four < 0.015);
  CHECK(last < 0.005);  // the fourth step serves the rest
}

TEST_CASE("Muon with row_beta2 is NorMuon: all rows learn at one speed", "[muon]") {
  constexpr double beta2 = 0.9, lr = 0.1, decay = 0.5;
  constexpr std::int64_t m = 3, n = 2;
  // Without momentum and iterations X is g / |g|, and the formula can be computed by hand.
  const auto o = MuonOptions().lr(lr).weight_decay(decay).momentum(0).ns_steps(0).row_beta2(beta2);
  Tensor p = ones({m, n}, float64).requires_grad_();
  Muon optimizer({p}, o);
  double expected[m][n] = {{1, 1}, {1, 1}, {1, 1}}, v[m] = {};
  for (const Tensor& g : {tensor({{3., 4.}, {0., 0.}, {0.5, 0.}}), tensor({{1., 0.}, {2., -2.}, {0., 0.}})}) {
    p.set_grad(g.to(float64));
    optimizer.step();
    const double norm = std::sqrt(sum(g * g).item());
    double y[m][n], size = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      double squares = 0;
      for (std::int64_t j = 0; j < n; ++j) y[i][j] = g[{i, j}].item() / norm, squares += y[i][j] * y[i][j] / n;
      v[i] = beta2 * v[i] + (1 - beta2) * squares;
      for (double& value : y[i]) value = v[i] > 0 ? value / std::sqrt(v[i]) : 0, size += value * value;
    }
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        expected[i][j] = expected[i][j] * (1 - lr * decay) - lr * std::sqrt(1.5) * y[i][j] / std::sqrt(size);
        CHECK(p[{i, j}].item() == Approx(expected[i][j]).margin(1e-12));
      }
  }
  // Its state is a number for each row, and is saved.
  const StateDict state = optimizer.state_dict();
  CHECK(at(state, "0.exp_avg_sq").shape() == Shape{m, 1});
  Tensor q = p.detach().clone().requires_grad_();
  Muon again({q}, o);
  again.load_state_dict(state);
  for (Tensor* x : {&p, &q}) x->set_grad(ones({m, n}, float64));
  optimizer.step(), again.step();
  CHECK(same_bits(p.detach(), q.detach()));
  CHECK_THROWS_WITH(Muon({p}, MuonOptions().row_beta2(1)), Contains("row_beta2 is 1"));
}

TEST_CASE("Muon takes the hidden matrices, and AdamW the rest", "[muon]") {
  manual_seed(1);
  for (const bool tied : {true, false}) {
    nn::GPT gpt(muon_gpt().tie_weights(tied).value_embeddings().qk_norm());
    const auto adamw = optim::AdamWOptions().lr(3e-3).weight_decay(0).beta2(0.99);
    const auto groups = optim::muon_groups(gpt, MuonOptions().lr(0.02), adamw);
    REQUIRE(groups.size() == 2);
    for (const auto& [name, p] : groups[0].parameters.named())
      CHECK((name.find(".attn.") != std::string::npos || name.find(".mlp.") != std::string::npos));
    CHECK(groups[0].parameters.named().size() == 8);
    CHECK(groups[1].options.adamw());
    CHECK(groups[0].parameters.named().size() + groups[1].parameters.named().size() == gpt.named_parameters().size());

    // The rest moves as under AdamW, to the bit.
    const auto copy = nn::clone(gpt);
    Muon muon(groups);
    optim::AdamW other(copy->named_parameters(), adamw);
    const Tensor ids = randint(0, 9, {2, 8});
    gpt.loss(ids, ids).backward();
    copy->loss(ids, ids).backward();
    muon.step();
    other.step();
    for (const auto& [name, p] : groups[1].parameters.named())
      CHECK(same_bits(p.detach(), copy->parameter(name).detach()));
    CHECK_FALSE(
        same_bits(gpt.parameter("h.0.attn.qkv.weight").detach(), copy->parameter("h.0.attn.qkv.weight").detach()));
  }
}

TEST_CASE("Muon steps matrices in one parameter as it steps them one by one", "[muon]") {
  manual_seed(3);
  for (const bool match_rms : {false, true}) {
    Tensor joint = randn({12, 3}).requires_grad_();
    std::vector<Tensor> each = split(joint.detach(), 4);
    for (Tensor& x : each) x.requires_grad_();
    const auto o = MuonOptions().lr(0.02).match_rms_adamw(match_rms);
    const std::vector<optim::Group<MuonOptions>> all{{nn::StateDict{{"qkv.weight", joint}, {"fc", randn({2, 3})}}, o}};
    const auto groups = optim::with_options(all, {{"*.weight", [](MuonOptions& some) { some.matrices(3); }}});
    REQUIRE(groups.size() == 2);
    CHECK(groups[0].options.matrices() == 3);
    CHECK(groups[1].options.matrices() == 1);
    Muon apart(groups), one_by_one(each, o);
    for (int step = 0; step < 3; ++step) {
      const Tensor gradient = randn({12, 3});
      const auto parts = split(gradient, 4);
      joint.set_grad(gradient);
      for (std::size_t i = 0; i < 3; ++i) each[i].set_grad(parts[i]);
      apart.step();
      one_by_one.step();
      CHECK(same_bits(joint.detach(), cat({each[0].detach(), each[1].detach(), each[2].detach()}, 0)));
    }
  }
}

TEST_CASE("Muon trains, goes on from its state, and takes a schedule", "[muon]") {
  manual_seed(2);
  const auto groups = [](nn::GPT& gpt) {
    return optim::muon_groups(gpt, MuonOptions().lr(0.02), optim::AdamWOptions().lr(3e-3));
  };
  nn::GPT first(muon_gpt());
  const Tensor ids = randint(0, 9, {4, 8});
  Muon optimizer(groups(first));
  optim::WarmupStableDecayLR schedule(optimizer, 40, 5, 10);
  CHECK(optimizer.lr(0) == Approx(0.02 / 5));
  CHECK(optimizer.lr(1) == Approx(3e-3 / 5));
  double start = 0, end = 0;
  std::shared_ptr<nn::GPT> second;
  std::unique_ptr<Muon> resumed;
  for (int step = 0; step < 40; ++step) {
    if (step == 20) {
      second = nn::clone(first);
      resumed = std::make_unique<Muon>(groups(*second));
      resumed->load_state_dict(optimizer.state_dict());
    }
    optimizer.zero_grad();
    const Tensor loss = first.loss(ids, ids);
    (step == 0 ? start : end) = loss.item();
    loss.backward();
    optimizer.step();
    if (resumed) {
      resumed->zero_grad();
      second->loss(ids, ids).backward();
      resumed->set_lr(0, optimizer.lr(0)), resumed->set_lr(1, optimizer.lr(1));
      resumed->step();
    }
    schedule.step();
  }
  CHECK(end < start - 0.5);
  for (const auto& [name, p] : first.named_parameters()) CHECK(same_bits(p.detach(), second->parameter(name).detach()));
  CHECK(contains(optimizer.state_dict(), "h.0.mlp.fc.weight.momentum_buffer"));
  CHECK(contains(optimizer.state_dict(), "wte.weight.exp_avg_sq"));
}

TEST_CASE("Muon that maximises is Muon of the negative gradient, and passes an empty matrix over", "[muon]") {
  const auto stepped = [](bool maximize, double sign) {
    Tensor matrix = arange(6).to(float32).reshape({2, 3}).requires_grad_(), vector = ones({3}).requires_grad_();
    Tensor empty = zeros({0, 3}).requires_grad_();
    const MuonOptions options = MuonOptions().maximize(maximize);
    Muon optimizer(std::vector<optim::Group<MuonOptions>>{{{matrix, empty}, options},
                                                          {{vector}, MuonOptions(options).adamw(true)}});
    for (int i = 0; i < 3; ++i) {
      matrix.set_grad(tensor({{1., 2., -1.}, {0.5, 3., i * 1.}}) * sign);
      vector.set_grad(tensor({1., -2., 3.}) * sign);
      empty.set_grad(zeros({0, 3}));
      optimizer.step();
    }
    return std::pair(matrix.detach(), vector.detach());
  };
  const auto up = stepped(true, 1), down = stepped(false, -1);
  CHECK(same_bits(up.first, down.first));
  CHECK(same_bits(up.second, down.second));
  CHECK_FALSE(same_bits(up.first, stepped(false, 1).first));
  // A net whose parameters are all hidden matrices has one group.
  CHECK(optim::muon_groups(nn::Linear(2, 3, false), MuonOptions(), optim::AdamWOptions()).size() == 1);
}

TEST_CASE("Muon's errors change nothing", "[muon]") {
  CHECK_THROWS_WITH(optim::muon_groups(nn::GPT(muon_gpt()), MuonOptions(), optim::AdamWOptions().amsgrad(true)),
                    Contains("[muon_groups] adamw has amsgrad"));
  Tensor matrix = ones({2, 3}).requires_grad_(), vector = ones({3}).requires_grad_();
  CHECK_THROWS_WITH(Muon({matrix, vector}), Contains("[Muon] the parameter 1 has shape [3]: only a matrix"));
  CHECK_THROWS_WITH(Muon({matrix}, MuonOptions().ns_steps(100)), "[Muon] ns_steps is 100: it must be in 0 … 99");
  CHECK_THROWS_WITH(Muon({matrix}, MuonOptions().momentum(1)), Contains("momentum is 1"));
  CHECK_THROWS_WITH(Muon({matrix}, MuonOptions().matrices(0)), "[Muon] matrices is 0: it must be at least 1");
  CHECK_THROWS_WITH(Muon({matrix}, MuonOptions().matrices(3)),
                    "[Muon] the parameter 0 has shape [2, 3]: its rows must be those of 3 matrices");
  Muon optimizer({matrix});
  matrix.set_grad(ones({2, 3}));
  CHECK_THROWS_WITH(optimizer.add_param_group({{vector}, MuonOptions()}),
                    Contains("the parameter 1 has shape [3]: only a matrix"));
  CHECK(optimizer.groups() == 1);
  optimizer.add_param_group({{vector}, MuonOptions().adamw(true)});
  optimizer.options(1).adamw(false);
  vector.set_grad(ones({3}));
  CHECK_THROWS_WITH(optimizer.step(), Contains("has shape [3]: only a matrix"));
  CHECK(equal(matrix.detach(), ones({2, 3})));
  CHECK(optimizer.state_dict().size() == 32);  // the options of two groups, and no state
  matrix.set_grad(zeros({2, 3}));
  vector.zero_grad();
  optimizer.step();  // no slope: only the decay
  CHECK(max_difference(matrix.detach(), ones({2, 3}) * (1 - 1e-4)) < 1e-7);
}

TEST_CASE("warm-up, a constant rate and a decay", "[schedule]") {
  Tensor p = ones({1}).requires_grad_();
  optim::SGD optimizer({p}, 0.5);
  optim::WarmupStableDecayLR schedule(optimizer, 20, 4, 8, 0.25);
  std::vector<double> rates;
  for (int t = 0; t < 24; ++t, schedule.step()) rates.push_back(optimizer.lr() / 0.5);
  const std::vector<double> expected = {0.25,  0.5,     0.75,   1,       1,    1,       1,      1,
                                        1,     1,       1,      1,       1,    0.90625, 0.8125, 0.71875,
                                        0.625, 0.53125, 0.4375, 0.34375, 0.25, 0.25,    0.25,   0.25};
  for (std::size_t t = 0; t < rates.size(); ++t) CHECK(rates[t] == Approx(expected[t]).epsilon(1e-12));
  CHECK_THROWS_WITH(optim::WarmupStableDecayLR(optimizer, 10, 6, 5),
                    Contains("[WarmupStableDecayLR] warmup is 6, decay 5, steps 10"));
  CHECK_THROWS_WITH(optim::WarmupStableDecayLR(optimizer, 10, 1, 1, 2), Contains("min_factor is 2"));
}

TEST_CASE("warm-up from 0, a cosine and a floor", "[schedule]") {
  Tensor p = ones({1}).requires_grad_();
  optim::SGD optimizer({p}, 0.5);
  optim::WarmupCosineLR schedule(optimizer, 8, 2, 0.5);
  std::vector<double> rates;
  for (int t = 0; t < 10; ++t, schedule.step()) rates.push_back(optimizer.lr());
  const double c = std::sqrt(0.75) / 8;  // of cos(pi / 6)
  const std::vector<double> expected = {0, 0.25, 0.5, 0.375 + c, 0.4375, 0.375, 0.3125, 0.375 - c, 0.25, 0.25};
  for (std::size_t t = 0; t < rates.size(); ++t) CHECK(rates[t] == Approx(expected[t]).margin(1e-12));
  CHECK_THROWS_WITH(optim::WarmupCosineLR(optimizer, 10, 10), Contains("[WarmupCosineLR] warmup is 10, steps 10"));
  CHECK_THROWS_WITH(optim::WarmupCosineLR(optimizer, 10, 1, 2), Contains("min_factor is 2"));
}

}  // namespace fit::test::muon_test
