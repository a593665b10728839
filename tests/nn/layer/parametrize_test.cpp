// Parameters that are computed from others.
#include "fit/nn/layer/parametrize.hpp"

#include <atomic>
#include <thread>

#include "fit/nn.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace fit::test::parametrize_test {
using Catch::Contains;
using fit::test::max_difference;
using fit::test::same_bits;

namespace {

// W divided by its largest singular value, which power iteration follows (Miyato et al. 2018).
struct SpectralNorm final : nn::UnaryLayer {
  SpectralNorm(std::int64_t out, std::int64_t in) : u(randn({out, 1})), v(randn({in, 1})) {}
  Tensor forward(const Tensor& w) const override {
    if (training()) {
      const NoGrad no_grad;
      const auto follow = [](Tensor to, const Tensor& x) { to.copy_(x / sqrt(sum(x * x))); };
      follow(v, matmul(transpose(w), u));
      follow(u, matmul(w, v));
    }
    return w / sum(matmul(transpose(u.clone()), matmul(w, v.clone())));
  }
  FIT_FIELDS(u, v)
  nn::Buffer u, v;
};

struct Doubled final : nn::UnaryLayer {
  Tensor forward(const Tensor& w) const override { return w * 2; }
  FIT_FIELDS()
};

struct Net final : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return out(relu(hidden(x))); }
  FIT_FIELDS(hidden, out)
  nn::Linear hidden{3, 8}, out{8, 2};
};

std::vector<std::string> names(const nn::StateDict& list) {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : list) all.push_back(name);
  return all;
}

double largest_singular_value(const Tensor& w) {
  Tensor x = randn({w.size(1), 1}, float64);
  for (int i = 0; i < 300; ++i) {
    x = matmul(transpose(w), matmul(w, x));
    x = x / sqrt(sum(x * x));
  }
  const Tensor y = matmul(w, x);
  return sqrt(sum(y * y)).item();
}

void train(Net& net, int steps) {
  optim::SGD optimizer(net.named_parameters(), 0.05);
  Generator g(5);
  const Tensor x = randn({16, 3}, float32, g), y = randn({16, 2}, float32, g);
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    nn::mse_loss(net(x), y).backward();
    optimizer.step();
  }
}

}  // namespace

TEST_CASE("LoRA: parametrised, trained, saved, loaded and baked in") {
  manual_seed(2);
  Net net;
  const Tensor x = randn({4, 3}), before = net(x).detach(), w = net.hidden.weight.detach().clone();
  for (auto& [name, linear] : net.named_layers<nn::Linear>()) nn::low_rank(linear->weight, 2, 4);
  CHECK(same_bits(net(x).detach(), before));  // B starts with zeros
  CHECK(names(net.state_dict()) == std::vector<std::string>{"hidden.weight.original", "hidden.weight.parametrization.A",
                                                            "hidden.weight.parametrization.B", "hidden.bias",
                                                            "out.weight.original", "out.weight.parametrization.A",
                                                            "out.weight.parametrization.B", "out.bias"});
  CHECK(net.num_parameters() - net.num_trainable_parameters() == 3 * 8 + 8 * 2);
  net.hidden.bias.freeze();
  net.out.bias.freeze();
  train(net, 20);
  CHECK(same_bits(net.hidden.weight.original().detach(), w));
  CHECK(max_difference(net(x).detach(), before) > 1e-2);

  const test::Directory d;
  save_safetensors(d.file("net.safetensors"), net.state_dict());
  Net other;
  CHECK_THROWS_WITH(other.load_state_dict(load_safetensors(d.file("net.safetensors")).tensors),
                    Contains("unexpected") && Contains("hidden.weight.original"));
  for (auto& [name, linear] : other.named_layers<nn::Linear>()) nn::low_rank(linear->weight, 2, 4);
  other.load_state_dict(load_safetensors(d.file("net.safetensors")).tensors);
  CHECK(same_bits(other(x).detach(), net(x).detach()));

  for (auto& [name, linear] : net.named_layers<nn::Linear>()) nn::remove_parametrization(linear->weight);
  CHECK(names(net.state_dict()) == names(Net().state_dict()));
  CHECK(same_bits(net(x).detach(), other(x).detach()));
  CHECK(net.hidden.weight.frozen());
  CHECK_FALSE(net.hidden.weight.parametrized());
}

TEST_CASE("LoRA on a GPT trains what is added alone, also where the head shares the table") {
  nn::GPT gpt(nn::GPTOptions().vocab_size(7).context_length(5).num_layers(2).num_heads(2).d_model(8));
  const Tensor ids = tensor({{1, 2, 3, 4}}), before = gpt(ids).detach();
  gpt.freeze();
  for (auto& [name, linear] : gpt.named_layers<nn::Linear>())
    if (name != "head") nn::low_rank(linear->weight, 2);
  CHECK(same_bits(gpt(ids).detach(), before));
  gpt.loss(ids, ids).backward();
  std::size_t trained = 0;
  for (const auto& [name, p] : gpt.named_parameters()) {
    INFO(name);
    const bool added = name.find(".parametrization.") != std::string::npos;
    CHECK(p.requires_grad() == added);
    if (!added) continue;
    CHECK(p.has_grad());
    ++trained;
  }
  CHECK(trained == 2 * 4 * 2);
  nn::KVCache cache = gpt.make_cache(1);
  CHECK(max_difference(gpt(ids, cache), before) < 1e-5);
}

TEST_CASE("spectral norm: the largest singular value is 1 and stays so in training") {
  manual_seed(4);
  nn::Linear layer(6, 5);
  nn::parametrize(layer.weight, SpectralNorm(5, 6));
  for (int i = 0; i < 100; ++i) layer(zeros({1, 6}));
  CHECK(largest_singular_value(layer.weight.value().detach().to(float64)) == Approx(1).margin(1e-3));
  optim::SGD optimizer(layer.named_parameters(), 0.1);
  for (int i = 0; i < 50; ++i) {
    optimizer.zero_grad();
    sum(layer(randn({4, 6}))).backward();
    optimizer.step();
  }
  for (int i = 0; i < 100; ++i) layer(zeros({1, 6}));
  CHECK(largest_singular_value(layer.weight.value().detach().to(float64)) == Approx(1).margin(1e-3));
  layer.eval();  // reaches the layer that computes it: nothing moves any more
  const Tensor u = layer.state_dict()[1].second.clone();
  layer(zeros({1, 6}));
  CHECK(names(layer.state_dict())[1] == "weight.parametrization.u");
  CHECK(same_bits(layer.state_dict()[1].second, u));
}

TEST_CASE("a parametrised parameter is no tensor that could be used by mistake") {
  nn::Linear layer(3, 2);
  const Tensor handle = layer.weight;
  nn::parametrize(layer.weight, Doubled());
  CHECK_FALSE(layer.weight.defined());
  CHECK(layer.weight.parametrized());
  const auto cure = "a parametrised parameter has its own in value()";
  CHECK_THROWS_WITH(matmul(ones({1, 2}), layer.weight), Contains("[matmul] b is undefined") && Contains(cure));
  CHECK_THROWS_WITH(layer.weight.grad(), Contains(cure));
  CHECK(layer.weight.original().impl() == handle.impl());
  CHECK(same_bits(layer.weight.value().detach(), (handle * 2).detach()));
  CHECK(layer.str() ==
        "Linear(\n  in_features=3, out_features=2, bias=true\n  (weight): Parametrized(\n    "
        "(parametrization): Doubled()\n  )\n)");
  layer.weight.freeze();
  CHECK(layer.weight.frozen());
  CHECK_FALSE(handle.requires_grad());
  layer.weight = nn::Parameter(ones({2, 3}));  // assigning puts a plain one in its place
  CHECK_FALSE(layer.weight.parametrized());
}

TEST_CASE("every layer of the library computes with the value") {
  const Tensor x = randn({2, 3, 4});
  const auto doubles = [&](auto layer, auto& p, const Tensor& in) {
    const Tensor plain = layer.forward(in).detach();
    nn::parametrize(p(layer), Doubled());
    const Tensor twice = layer.forward(in).detach();
    nn::remove_parametrization(p(layer));
    CHECK(same_bits(layer.forward(in).detach(), twice));
    CHECK(max_difference(plain, twice) > 1e-3);
  };
  const auto weight = [](auto& l) -> nn::Parameter& { return l.weight; };
  const auto bias = [](auto& l) -> nn::Parameter& { return l.bias; };
  doubles(nn::Linear(4, 3), weight, x);
  doubles(nn::Linear(4, 3), bias, x);
  doubles(nn::LayerNorm(4), weight, x);
  doubles(nn::RMSNorm(4), weight, x);
  doubles(nn::Embedding(5, 3), weight, tensor({0, 4}));
  nn::LayerNorm norm(4);
  {
    const NoGrad no_grad;
    norm.bias.fill_(1);
  }
  nn::parametrize(norm.bias, Doubled());
  CHECK(mean(norm(x)).item() == Approx(2));
}

TEST_CASE("a parametrisation is removed in the weight's type, also under Autocast") {
  nn::Linear layer(8, 8);
  nn::low_rank(layer.weight, 2);
  for (Tensor& p : layer.parameters()) {
    const NoGrad no_grad;
    p.copy_(randn(p.shape()));
  }
  const Tensor before = layer.weight.value();
  const Autocast guard(bfloat16);
  nn::remove_parametrization(layer.weight);
  CHECK(same_bits(layer.weight, before));
}

TEST_CASE("parametrised layers are cloned, converted and shared like others") {
  Net net;
  nn::parametrize(net.hidden.weight, nn::LowRank(8, 3, 2));
  nn::init::normal_(net.parameter("hidden.weight.parametrization.B"));
  const Tensor x = randn({4, 3});
  const auto copy = nn::clone(net);
  CHECK(same_bits((*copy)(x), net(x)));
  for (std::size_t i = 0; i < net.state_dict().size(); ++i)
    CHECK(copy->state_dict()[i].second.raw() != net.state_dict()[i].second.raw());
  const Tensor before = net(x).detach();
  net.to(float64);
  CHECK(net(x.to(float64)).dtype() == float64);
  CHECK(max_difference(net(x.to(float64)).detach(), before) < 1e-5);

  nn::Linear a(3, 3), b(3, 3);
  nn::parametrize(a.weight, Doubled());
  b.weight = a.weight;  // ties them, the parametrisation included
  CHECK(same_bits(b.weight.value().detach(), a.weight.value().detach()));
  const nn::Sequential both(std::move(a), std::move(b));
  CHECK(both.parameters().size() == 3);
  CHECK(nn::clone(both)->parameters().size() == 3);
}

TEST_CASE("a parametrised model serves several threads at once") {
  Net net;
  nn::low_rank(net.hidden.weight, 2);
  net.eval();
  const Tensor x = randn({4, 3}), expected = net(x).detach();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const NoGrad no_grad;
      for (int i = 0; i < 50; ++i)
        if (!same_bits(net(x), expected)) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("what can't be parametrised is refused, and nothing has changed") {
  nn::Linear layer(3, 2, false);
  CHECK_THROWS_WITH(nn::parametrize(layer.bias, Doubled()),
                    "[parametrize] the parameter is undefined: give it a value "
                    "first (zeros, tensor, ...); a gradient gets one by backward(), and a parametrised parameter has "
                    "its own in value()");
  CHECK_THROWS_WITH(nn::parametrize(layer.weight, nn::Linear(3, 5)),
                    "[parametrize] Linear gives float32 [2, 5], the parameter is float32 [2, 3]: they must be alike");
  CHECK_THROWS_WITH(nn::parametrize(layer.weight, nullptr), "[parametrize] the layer is a null pointer");
  CHECK_THROWS_WITH(nn::remove_parametrization(layer.weight),
                    "[remove_parametrization] the parameter is not parametrised");
  CHECK_THROWS_WITH(nn::low_rank(layer.weight, 0), "[LowRank] rank is 0: it must be positive");
  CHECK_FALSE(layer.weight.frozen());
  nn::LayerNorm norm(3);
  CHECK_THROWS_WITH(nn::low_rank(norm.weight, 1), "[low_rank] weight has shape [3]: it must be [out, in]");
  nn::parametrize(layer.weight, Doubled());
  CHECK_THROWS_WITH(nn::low_rank(layer.weight, 1),
                    "[parametrize] the parameter is parametrised already: give a Sequential that does both");
  // An Error in what computes it is told with its name.
  struct Picky final : nn::UnaryLayer {
    Tensor forward(const Tensor& w) const override { return allowed ? w : matmul(w, w); }
    FIT_FIELDS_ONLY()
    std::shared_ptr<bool> on = std::make_shared<bool>(true);
    bool& allowed = *on;
  };
  Net net;
  Picky picky;
  const auto on = picky.on;
  nn::parametrize(net.out.weight, std::move(picky));
  *on = false;
  CHECK_THROWS_WITH(nn::Sequential(std::move(net))(ones({1, 3})), Contains(", in 0.out.weight.parametrization"));
}

}  // namespace fit::test::parametrize_test
