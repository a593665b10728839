// Copies of layers that live lives of their own.
#include <memory>
#include <mutex>
#include <optional>

#include "fit/nn/attention/single_head.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/dropout.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::layer_clone_test {
using Catch::Contains;
using fit::test::same_bits;

namespace {

// A layer of one's own with state besides its members.
struct Mine final : nn::UnaryLayer {
  explicit Mine(double factor) : factor_(factor) {}
  Tensor forward(const Tensor& x) const override {
    Tensor y = shared->forward(norm(fc(x))) * factor_ + scale;
    for (const nn::Linear& l : many) y = l(y);
    return maybe ? (*maybe)(y) : y;
  }
  FIT_FIELDS(fc, norm, shared, again, many, maybe, scale)

  nn::Linear fc{3, 3};
  nn::LayerNorm norm{3};
  std::shared_ptr<nn::Linear> shared = std::make_shared<nn::Linear>(3, 3), again = shared;
  std::vector<nn::Linear> many;
  std::optional<nn::Linear> maybe;
  nn::Buffer scale{ones({3})};

 private:
  double factor_;
};

bool disjoint(const nn::Layer& a, const nn::Layer& b) {
  for (const auto& [name, x] : a.state_dict())
    for (const auto& [other, y] : b.state_dict())
      if (x.raw() == y.raw()) return false;
  return true;
}

}  // namespace

TEST_CASE("a layer of one's own is cloned through a base reference, with everything it holds") {
  Mine mine(2.5);
  for (int i = 0; i < 2; ++i) mine.many.emplace_back(3, 3);
  mine.maybe.emplace(3, 2);
  mine.norm = nn::LayerNorm(3, 0.5);  // what was replaced stays replaced
  mine.fc.weight.freeze();
  mine.many[1].weight = mine.fc.weight;
  mine.eval();
  mine.norm.train();
  const Tensor x = randn({4, 3});
  sum(mine(x)).backward();
  const std::uint64_t calls = default_generator().calls();
  const nn::Layer& base = mine;
  const std::shared_ptr<nn::Layer> copied = base.clone();
  CHECK(default_generator().calls() == calls);
  const auto copy = std::dynamic_pointer_cast<Mine>(copied);
  REQUIRE(copy);
  CHECK(same_bits((*copy)(x), mine(x)));
  CHECK(disjoint(*copy, mine));
  CHECK(copy->shared == copy->again);
  CHECK(copy->shared != mine.shared);
  CHECK(copy->many[1].weight.impl() == copy->fc.weight.impl());
  CHECK(copy->fc.weight.frozen());
  CHECK_FALSE(copy->norm.weight.frozen());
  CHECK_FALSE(copy->training());
  CHECK(copy->norm.training());
  CHECK(mine.norm.weight.has_grad());
  CHECK_FALSE(copy->norm.weight.has_grad());
  CHECK(copy->parameters().size() == mine.parameters().size());
  CHECK(copy->str() == mine.str());
}

TEST_CASE("a layer of one's own is cloned in Sequential and in ModuleList") {
  nn::Sequential net(Mine(2), nn::LayerNorm(3, 0.25), Mine(3));
  const Tensor x = randn({2, 3});
  const auto copy = nn::clone(net);
  CHECK(same_bits((*copy)(x), net(x)));
  CHECK(disjoint(*copy, net));
  nn::ModuleList<Mine> list;
  list.add(Mine(4));
  const auto other = nn::clone(list);
  CHECK(same_bits((*other)[0](x), list[0](x)));
  CHECK(disjoint(*other, list));
}

TEST_CASE("a clone keeps what was replaced in a layer of the library") {
  const auto o = nn::GPTOptions().vocab_size(5).context_length(4).num_layers(2).num_heads(2).d_model(8).positions(
      nn::Positions::rotary);
  nn::GPT gpt(o);
  gpt.layer<nn::LayerNorm>("ln_f") = nn::LayerNorm(8, 0.5);
  gpt.layer<nn::LayerNorm>("h.1.ln_1") = nn::LayerNorm(8, 0.75);
  gpt.layer<nn::Linear>("h.0.attn.proj") = nn::Linear(8, 8, false);
  gpt.h.replace(1, nn::GPTBlock(o));
  const Tensor ids = tensor({{0, 3, 1}});
  const auto copy = nn::clone(gpt);
  CHECK(same_bits((*copy)(ids), gpt(ids)));
  CHECK(disjoint(*copy, gpt));
  CHECK(copy->wte.weight.impl() == copy->head.weight.impl());
  CHECK_FALSE(copy->layer<nn::Linear>("h.0.attn.proj").bias.defined());
}

TEST_CASE("a layer that is shared between two that are cloned together stays shared between their clones") {
  const auto both = std::make_shared<nn::Linear>(2, 2);
  const nn::Sequential net(nn::Sequential(both), nn::Sequential(both, nn::Linear(2, 2)));
  const auto copy = nn::clone(net);
  CHECK(copy->parameters().size() == 4);
  CHECK(disjoint(*copy, net));
}

TEST_CASE("what can't be copied says how to go on, and clone() then fills in the values") {
  struct Locked : nn::Layer {
    FIT_FIELDS_ONLY(fc)
    std::mutex mutex;
    nn::Linear fc{2, 2};
  };
  CHECK_THROWS_WITH(Locked().clone(),
                    "[clone] Locked has a member that can't be copied: override copy(), to make "
                    "another Locked with the same arguments");
  struct Owner final : nn::Layer {
    FIT_FIELDS_ONLY(fc)
    std::shared_ptr<nn::Layer> copy() const override { return std::make_shared<Owner>(); }
    std::unique_ptr<nn::Linear> fc = std::make_unique<nn::Linear>(2, 2);
  };
  const Owner owner;
  const std::uint64_t calls = default_generator().calls();
  const auto copy = nn::clone(owner);
  CHECK(default_generator().calls() == calls);
  CHECK(same_bits(copy->fc->weight, owner.fc->weight));
  CHECK(disjoint(*copy, owner));

  struct Liar final : nn::Layer {
    FIT_FIELDS_ONLY()
    std::shared_ptr<nn::Layer> copy() const override { return std::make_shared<Owner>(); }
  };
  CHECK_THROWS_WITH(Liar().clone(), "[clone] copy() of Liar gives a Owner: it must give a Liar");
  struct Grows final : nn::Layer {
    explicit Grows(std::size_t n) {
      for (std::size_t i = 0; i < n; ++i) list.add(nn::ReLU());
    }
    FIT_FIELDS_ONLY(list)
    std::shared_ptr<nn::Layer> copy() const override { return std::make_shared<Grows>(list.size() + 1); }
    nn::ModuleList<> list;
  };
  CHECK_THROWS_WITH(Grows(1).clone(), Contains("other members"));
  struct Borrower final : nn::Layer {
    void fields(nn::Fields& f) override { f.self(*this), f("borrowed", *borrowed); }
    nn::Linear* borrowed = nullptr;
  };
  nn::Linear lent(2, 2);
  Borrower borrower;
  borrower.borrowed = &lent;
  CHECK_THROWS_WITH(borrower.clone(), Contains("lists 'borrowed', which it neither holds nor shares"));
}

}  // namespace fit::test::layer_clone_test
