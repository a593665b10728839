#include "fit/nn/layer/layer.hpp"

#include <sstream>
#include <type_traits>

#include "fit/base/memory.hpp"
#include "fit/nn/layer/forward_hooks.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/dropout.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::layer_test {
using Catch::Contains;
using fit::test::same_bits;

namespace {

struct Block final : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return drop(fit::tanh(fc(x))) * scale; }
  FIT_FIELDS(fc, drop, scale)

  nn::Linear fc{3, 3};
  nn::Dropout drop{0.5};
  nn::Buffer scale{full({3}, 2)};
};

struct Net final : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return head(blocks(x)); }
  FIT_FIELDS(blocks, head)
  std::string describe() const override { return "blocks=2"; }

  nn::Sequential blocks{Block(), Block()};
  nn::Linear head{3, 1, false};
};

std::vector<std::string> names(const nn::StateDict& list) {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : list) all.push_back(name);
  return all;
}

struct Twice final : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return (*again)((*norm)(x)); }
  FIT_FIELDS(norm, again)
  std::shared_ptr<nn::BatchNorm> norm = std::make_shared<nn::BatchNorm>(3), again = norm;
};

}  // namespace

TEST_CASE("a layer is moved, not copied") {
  static_assert(!std::is_copy_assignable_v<nn::Linear> && !std::is_copy_assignable_v<Net>);
  static_assert(std::is_nothrow_move_constructible_v<nn::Linear> &&
                std::is_nothrow_move_constructible_v<nn::Sequential>);
  nn::Linear a(2, 3);
  const Tensor weight = a.weight;
  nn::Linear b = std::move(a);
  CHECK(b.weight.impl() == weight.impl());
  CHECK_THROWS_WITH(nn::Linear(b), Contains("[Linear] a layer is not copied: move it, or clone() it."));
  const Net net;
  CHECK_THROWS_WITH(Net(net), Contains("[Net] a layer is not copied"));
  const auto copy = nn::clone(net);
  CHECK_THROWS_AS(Net(*copy), Error);  // clone() lets nothing through afterwards
}

TEST_CASE("names, counts and children follow from the list") {
  const Net net;
  CHECK(names(net.named_parameters()) == std::vector<std::string>{"blocks.0.fc.weight", "blocks.0.fc.bias",
                                                                  "blocks.1.fc.weight", "blocks.1.fc.bias",
                                                                  "head.weight"});
  CHECK(names(net.named_buffers()) == std::vector<std::string>{"blocks.0.scale", "blocks.1.scale"});
  CHECK(names(net.state_dict()).size() == 7);
  CHECK(net.num_parameters() == 2 * (9 + 3) + 3);
  CHECK(net.parameters().size() == 5);
  REQUIRE(net.children().size() == 2);
  CHECK(net.children()[1].first == "head");
  CHECK(net.children()[1].second == &net.head);
}

TEST_CASE("parameters and buffers of a layer that stands twice are listed once, and both names are saved") {
  const Twice twice;
  CHECK(names(twice.named_parameters()) == std::vector<std::string>{"norm.weight", "norm.bias"});
  const StateDict buffers = twice.named_buffers();
  REQUIRE_FALSE(buffers.empty());
  for (const auto& [name, buffer] : buffers) CHECK(name.rfind("norm.", 0) == 0);
  CHECK(twice.state_dict().size() == 2 * (2 + buffers.size()));
}

TEST_CASE("a layer prints what it is made of") {
  std::ostringstream s;
  s << Net();
  CHECK(s.str() == R"(Net(
  blocks=2
  (blocks): Sequential(
    (0): Block(
      (fc): Linear(in_features=3, out_features=3, bias=true)
      (drop): Dropout(p=0.5)
    )
    (1): Block(
      (fc): Linear(in_features=3, out_features=3, bias=true)
      (drop): Dropout(p=0.5)
    )
  )
  (head): Linear(in_features=3, out_features=1, bias=false)
))");
  CHECK(nn::ReLU().str() == "ReLU()");
  nn::ModuleList<nn::Linear> list;
  list.add(nn::Linear(1, 2));
  CHECK(list.str() == "ModuleList(\n  (0): Linear(in_features=1, out_features=2, bias=true)\n)");
  CHECK(nn::Sequential().str() == "Sequential()");
}

TEST_CASE("train and eval reach every dropout below") {
  Net net;
  const Tensor x = ones({64, 3});
  CHECK(net.training());
  CHECK_FALSE(same_bits(net(x), net(x)));
  net.eval();
  CHECK_FALSE(static_cast<const Block&>(net.blocks[1]).drop.training());
  CHECK(same_bits(net(x), net(x)));
  net.train();
  CHECK(static_cast<const Block&>(net.blocks[1]).drop.training());
}

TEST_CASE("a tied parameter counts once and stays tied in a clone and in another type") {
  struct Tied final : nn::Layer {
    FIT_FIELDS_ONLY(in, out)
    nn::Embedding in{5, 3};
    nn::Linear out{3, 5, false};
  };
  Tied tied;
  tied.out.weight = tied.in.weight;
  CHECK(tied.parameters().size() == 1);
  CHECK(names(tied.named_parameters()) == std::vector<std::string>{"in.weight"});
  CHECK(names(tied.state_dict()) == std::vector<std::string>{"in.weight", "out.weight"});
  CHECK(tied.num_parameters() == 15);
  const auto copy = nn::clone(tied);
  CHECK(copy->in.weight.impl() == copy->out.weight.impl());
  CHECK(copy->in.weight.impl() != tied.in.weight.impl());
  CHECK(same_bits(copy->in.weight, tied.in.weight));
  tied.to(float64);
  CHECK(tied.in.weight.impl() == tied.out.weight.impl());
  CHECK(tied.out.weight.dtype() == float64);
  CHECK(tied.parameters().size() == 1);
}

TEST_CASE("freezing takes parameters out of training, and a clone keeps that") {
  Net net;
  net.head.weight.freeze();
  CHECK(net.head.weight.frozen());
  CHECK(net.num_trainable_parameters() == net.num_parameters() - 3);
  CHECK(net.parameters().size() == 5);
  sum(net(ones({2, 3}))).backward();
  CHECK_FALSE(net.head.weight.has_grad());
  CHECK(static_cast<Block&>(net.blocks[0]).fc.weight.has_grad());
  const auto copy = nn::clone(net);
  CHECK(copy->head.weight.frozen());
  CHECK(copy->num_trainable_parameters() == 24);
  copy->unfreeze();
  CHECK(copy->num_trainable_parameters() == 27);
  net.zero_grad();
  CHECK_FALSE(static_cast<Block&>(net.blocks[0]).fc.weight.has_grad());
  net.freeze();
  CHECK_FALSE(net(ones({2, 3})).requires_grad());
}

TEST_CASE("to() keeps no memory of the type before") {
  nn::Sequential net(nn::Linear(2048, 2048), nn::Linear(2048, 2048), nn::Linear(2048, 2048));  // of 16 MiB each
  const std::int64_t before = memory_stats().cached_bytes;
  net.to(bfloat16);
  CHECK(memory_stats().cached_bytes - before < std::int64_t{1} << 20);
}

TEST_CASE("to() converts in place, for everyone who holds the parameters") {
  nn::Linear layer(2, 2);
  const Tensor handle = layer.parameters()[0];
  const Tensor before = handle.detach().clone();
  sum(layer(ones({1, 2}))).backward();
  layer.to(float64);
  CHECK(handle.dtype() == float64);
  CHECK(handle.impl() == layer.weight.impl());
  CHECK(equal(handle.detach(), before.to(float64)));
  CHECK_FALSE(handle.has_grad());
  sum(layer(ones({1, 2}, float64))).backward();
  CHECK(handle.grad().dtype() == float64);
  CHECK_THROWS_WITH(layer.to(int64), Contains("dtype is int64"));
}

TEST_CASE("loading takes all or nothing, and says all that does not fit") {
  Net net;
  nn::StateDict state;
  for (const auto& [name, tensor] : net.state_dict()) state.emplace_back(name, full(tensor.shape(), 7));
  nn::StateDict wrong = state;
  wrong[0].second = zeros({4, 3});                 // misshapen
  wrong[1].first = "blocks.0.fc.bios";             // missing and unexpected
  wrong[3].second = zeros({3, 3}, int64);          // another type
  wrong.emplace_back(wrong[4].first, zeros({3}));  // twice
  const nn::StateDict before = [&] {
    nn::StateDict copies;
    for (const auto& [name, tensor] : net.state_dict()) copies.emplace_back(name, tensor.clone());
    return copies;
  }();
  CHECK_THROWS_WITH(
      net.load_state_dict(wrong),
      "[load_state_dict] the state does not fit this Net; nothing was loaded:\n"
      "  missing: blocks.0.fc.bias [3]\n"
      "  unexpected: blocks.1.fc.bias (twice), blocks.0.fc.bios [3]\n"
      "  perhaps: blocks.0.fc.bios for blocks.0.fc.bias\n"
      "  misshapen: blocks.0.fc.weight is [4, 3], here [3, 3], blocks.1.fc.weight is int64, here float32");
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_bits(net.state_dict()[i].second, before[i].second));
  const std::uint32_t version = net.head.weight.version();
  net.load_state_dict(state);
  CHECK(net.head.weight.to_vector<float>() == std::vector<float>{7, 7, 7});
  CHECK(net.head.weight.requires_grad());
  CHECK(net.head.weight.version() > version);
  // float64 goes into float32
  for (auto& [name, tensor] : state) tensor = full(tensor.shape(), 0.5, float64);
  net.load_state_dict(state);
  CHECK(net.head.weight.to_vector<float>() == std::vector<float>{.5f, .5f, .5f});
}

TEST_CASE("the state of a layer is live and outside of the graph") {
  nn::Linear layer(2, 1, false);
  const nn::StateDict state = layer.state_dict();
  CHECK_FALSE(state[0].second.requires_grad());
  const NoGrad no_grad;
  layer.weight.fill_(3);
  CHECK(state[0].second.to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("parameters and buffers are made from tensors outside of the graph") {
  const Tensor x = ones({2}).requires_grad_();
  const nn::Parameter p(x * 2);
  CHECK(p.is_leaf());
  CHECK(p.requires_grad());
  CHECK_FALSE(nn::Buffer(x * 2).requires_grad());
  CHECK_THROWS_AS(nn::Parameter(zeros({2}, int64)), Error);
  nn::Parameter none;
  CHECK_FALSE(none.frozen());
  none.freeze();
  CHECK_FALSE(none.defined());
}

// ---- containers ---------------------------------------------------------------------------------------------------

TEST_CASE("Sequential applies its layers in order and shares those given by pointer") {
  const auto shared = std::make_shared<nn::Linear>(2, 2);
  nn::Sequential net(shared, nn::ReLU(), shared);
  CHECK(net.size() == 3);
  CHECK(net.parameters().size() == 2);
  const Tensor x = ones({1, 2});
  CHECK(same_bits(net(x), (*shared)(relu((*shared)(x)))));
  CHECK(same_bits(nn::Sequential()(x), x));
  CHECK_THROWS_WITH(net[3], "[Sequential] there is no layer 3: it has 3");
  const auto copy = nn::clone(net);
  CHECK(copy->parameters().size() == 2);
  CHECK(same_bits((*copy)(x), net(x)));
}

TEST_CASE("ModuleList is walked and grows") {
  nn::ModuleList<nn::Linear> list;
  for (int i = 0; i < 3; ++i) list.add(nn::Linear(2, 2));
  Tensor x = ones({2});
  for (const auto& layer : list) x = layer(x);
  CHECK(same_bits(x, list[2](list[1](list[0](ones({2}))))));
  for (auto& layer : list) layer.weight.freeze();
  CHECK(list.num_trainable_parameters() == 6);
  CHECK(names(list.named_parameters())[2] == "1.weight");
}

TEST_CASE("ModuleList is made of layers in braces") {
  const nn::ModuleList list{nn::Linear(2, 3), nn::ReLU()};
  static_assert(std::is_same_v<decltype(list), const nn::ModuleList<nn::UnaryLayer>>);
  CHECK(list.size() == 2);
  const auto shared = std::make_shared<nn::Linear>(2, 2);
  nn::ModuleList<nn::Linear> linears{shared, nn::Linear(2, 1)};
  CHECK(&linears[0] == shared.get());
  const nn::ModuleList<nn::Linear> moved(std::move(linears));
  CHECK(moved.size() == 2);
  CHECK(nn::clone(moved)->size() == 2);
  static_assert(!std::is_constructible_v<nn::ModuleList<>, nn::Linear&>);  // a layer is not copied
}

TEST_CASE("a layer is found by its dotted name and class") {
  Net net;
  nn::Linear& fc = net.layer<nn::Linear>("blocks.0.fc");
  CHECK(&fc == net.named_layers<nn::Linear>()[0].second);
  CHECK_THROWS_WITH(net.layer<nn::Linear>("blocks.0.drop"), Contains("Dropout"));
  CHECK_THROWS_WITH(net.layer<nn::Linear>("blocks.0.fd"), Contains("blocks.0.fd"));
  // A hook on any Layer&.
  int calls = 0;
  const auto hook = nn::register_forward_hook(net.layer("blocks.1"), [&](const nn::Layer&, const Tensor&) { ++calls; });
  (void)net(ones({3}));
  CHECK(calls == 1);
}

TEST_CASE("the parameters of a model as one vector, and back") {
  nn::Sequential net(nn::Linear(2, 3), nn::Linear(3, 1));
  const std::vector<Tensor> parameters = net.parameters();
  const Tensor flat = nn::parameters_to_vector(parameters);
  CHECK(flat.shape() == Shape{13});
  CHECK(same_bits(flat.detach()[{range(0, 6)}].reshape({3, 2}), parameters[0].detach()));
  // The gradient flows: d(flat . flat) / dp = 2 p.
  CHECK(same_bits(grad(sum(square(flat)), parameters)[2], (parameters[2] * 2).detach()));
  const Tensor moved = flat.detach() + 1;
  nn::vector_to_parameters(moved, parameters);
  CHECK(same_bits(nn::parameters_to_vector(net.parameters()).detach(), moved));
  CHECK(parameters[0].is_leaf());
  // Directions for hvp(): a vector in the shapes of the parameters.
  std::vector<Tensor> directions;
  for (const Tensor& p : parameters) directions.push_back(zeros_like(p));
  nn::vector_to_parameters(arange(13).to(float64), directions);
  CHECK(directions[3].item() == 12);
  CHECK(directions[0].dtype() == float32);
  CHECK_THROWS_WITH(nn::vector_to_parameters(zeros({12}), parameters),
                    Contains("vector is [12], the parameters have 13 elements together"));
  CHECK(same_bits(nn::parameters_to_vector(net.parameters()).detach(), moved));
  CHECK_THROWS_WITH(nn::parameters_to_vector({tensor({1, 2})}), Contains("parameters"));
  CHECK(nn::parameters_to_vector({}).shape() == Shape{0});
}

}  // namespace fit::test::layer_test
