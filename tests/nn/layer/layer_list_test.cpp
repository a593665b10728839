// The list of a layer's members: what it takes, and what is found that it leaves out.
#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <thread>

#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/dropout.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/nn/optim/optim.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::layer_list_test {
using Catch::Contains;

namespace {

std::vector<std::string> names(const nn::Layer& layer) {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : layer.state_dict()) all.push_back(name);
  return all;
}

// Members of every kind that a list takes.
struct Everything final : nn::Layer {
  FIT_FIELDS(p, none, b, one, here, absent, many, some, shared, nobody, owned, pair)
  nn::Parameter p{zeros({2})}, none;
  nn::Buffer b{zeros({2})};
  nn::Linear one{1, 2, false};
  std::optional<nn::Linear> here{std::in_place, 2, 1, false}, absent;
  std::vector<nn::Linear> many;
  std::vector<std::optional<nn::Parameter>> some;
  std::shared_ptr<nn::Linear> shared = std::make_shared<nn::Linear>(3, 1, false), nobody;
  std::unique_ptr<nn::Linear> owned = std::make_unique<nn::Linear>(3, 2, false);
  std::array<nn::ReLU, 2> pair;
};

// One member is not listed, or the list is wrong.
enum class Wrong { nothing, first, second, middle, last, inherited, blocks, shared, twice, dotted, self };
struct Base : nn::Layer {
  std::optional<nn::Linear> inherited;
};
template <Wrong wrong>
struct Forgetful final : Base {
  void fields(nn::Fields& f) override {
    if (wrong != Wrong::self) f.self(*this);
    if (wrong != Wrong::inherited) f("inherited", inherited);
    if (wrong != Wrong::first && wrong != Wrong::second) f("first", first);
    if (wrong != Wrong::second) f("second", second);
    if (wrong != Wrong::middle) f("middle", middle);
    if (wrong != Wrong::blocks) f("blocks", blocks);
    if (wrong != Wrong::shared) f("shared", shared);
    if (wrong != Wrong::last) f(wrong == Wrong::dotted ? "last.x" : wrong == Wrong::twice ? "first" : "last", last);
  }
  explicit Forgetful(bool filled = false) {
    for (int i = 0; i < (filled ? 3 : 0); ++i) blocks.add(nn::Linear(2, 2));
    if (filled) shared = std::make_shared<nn::LayerNorm>(4), inherited.emplace(1, 1);
  }
  nn::Parameter first{zeros({2})};
  double number = 3;
  nn::Buffer second;
  std::string text = "text";
  nn::Dropout middle{0.1};
  nn::ModuleList<nn::Linear> blocks;
  std::shared_ptr<nn::LayerNorm> shared;
  nn::Linear last{2, 2};
};

template <Wrong wrong>
std::string told() {
  try {
    const auto on_heap = std::make_unique<Forgetful<wrong>>(true);
    optim::SGD(on_heap->named_parameters(), 0.1);
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a list takes every kind of member") {
  Everything layer;
  layer.many.emplace_back(1, 1, false);
  layer.many.emplace_back(1, 2, false);
  layer.some.resize(2);
  layer.some[1].emplace(ones({3}));
  CHECK(names(layer) == std::vector<std::string>{"p", "b", "one.weight", "here.weight", "many.0.weight",
                                                 "many.1.weight", "some.1", "shared.weight", "owned.weight"});
  CHECK(layer.children().back().first == "pair.1");
  layer.eval();
  CHECK_FALSE(layer.many[1].training());
  CHECK_FALSE(layer.pair[1].training());
}

TEST_CASE("a member that is not listed is named by its neighbours when the layer is first asked") {
  CHECK(told<Wrong::nothing>() == "nothing");
  CHECK(told<Wrong::first>() ==
        "[Forgetful] holds a Parameter between 'inherited' and 'second' that FIT_FIELDS does not name");
  CHECK(told<Wrong::second>() ==
        "[Forgetful] holds a Parameter between 'inherited' and 'middle' that FIT_FIELDS does not name");
  CHECK(told<Wrong::middle>() ==
        "[Forgetful] holds a Dropout between 'second' and 'blocks' that FIT_FIELDS does not name");
  CHECK(told<Wrong::last>() == "[Forgetful] holds a Linear after 'shared' that FIT_FIELDS does not name");
  CHECK(told<Wrong::inherited>() == "[Forgetful] holds a Linear before 'first' that FIT_FIELDS does not name");
  CHECK(told<Wrong::blocks>() ==
        "[Forgetful] holds a ModuleList between 'middle' and 'shared' that FIT_FIELDS does not name");
  CHECK(told<Wrong::shared>() == "nothing");  // it may be somebody else's
}

TEST_CASE("names are words, and each stands for one member") {
  CHECK(told<Wrong::twice>() == "[Forgetful] lists the name 'first' twice");
  CHECK(told<Wrong::dotted>() == "[Forgetful] lists the name 'last.x': it must be a word of letters, digits and _");
}

TEST_CASE("a list says whose it is") {
  CHECK_THAT(told<Wrong::self>(), Contains("[Forgetful] its fields() does not say whose members it lists"));
  struct Inner : nn::Layer {
    FIT_FIELDS_ONLY(fc)
    nn::Linear fc{2, 2};
  };
  struct Outer final : Inner {
    nn::Linear more{2, 2};
  };
  CHECK_THROWS_WITH(Outer().parameters(), Contains("[Outer] has no list of its own") && Contains("FIT_FIELDS"));
  struct Both final : Inner {
    FIT_FIELDS_ONLY(fc, more)
    nn::Linear more{2, 2};
  };
  CHECK(names(Both()).size() == 4);
}

TEST_CASE("whatever asks for the list finds what is missing in it") {
  using Layer = Forgetful<Wrong::middle>;
  CHECK_THROWS_AS(Layer().parameters(), Error);
  CHECK_THROWS_AS(Layer().state_dict(), Error);
  CHECK_THROWS_AS(Layer().load_state_dict({}), Error);
  CHECK_THROWS_AS(Layer().eval(), Error);
  CHECK_THROWS_AS(Layer().to(float64), Error);
  CHECK_THROWS_AS(Layer().zero_grad(), Error);
  CHECK_THROWS_AS(Layer().clone(), Error);
  nn::Sequential net;
  struct Wrapped final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return x; }
    FIT_FIELDS_ONLY()
    nn::Linear fc{2, 2};
  };
  net.add(Wrapped());
  CHECK_THROWS_WITH(net.train(), "[Wrapped] holds a Linear that FIT_FIELDS does not name");
}

TEST_CASE("what is not listed is found on the stack, on the heap, after a move, and on every thread") {
  Forgetful<Wrong::middle> here;
  CHECK_THROWS_AS(here.parameters(), Error);
  CHECK_THROWS_AS(here.parameters(), Error);  // and again: it isn't forgotten
  const Forgetful<Wrong::middle> moved = std::move(here);
  CHECK_THROWS_AS(moved.parameters(), Error);
  std::vector<std::thread> threads;
  std::atomic<int> found{0}, wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        try {
          Forgetful<Wrong::last>(true).parameters();
        } catch (const Error&) {
          ++found;
        }
        try {
          if (Forgetful<Wrong::nothing>(true).parameters().empty()) ++wrong;
        } catch (const Error&) {
          ++wrong;
        }
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(found == 800);
  CHECK(wrong == 0);
}

TEST_CASE("a list that is known at run time only is written by hand") {
  struct Branches final : nn::Layer {
    void fields(nn::Fields& f) override {
      f.self(*this);
      for (auto& [name, layer] : branches) f(name, layer);
    }
    std::map<std::string, nn::Linear> branches;
  };
  Branches layer;
  layer.branches.emplace("left", nn::Linear(2, 1));
  layer.branches.emplace("right", nn::Linear(2, 1, false));
  CHECK(names(layer) == std::vector<std::string>{"left.weight", "left.bias", "right.weight"});
  CHECK(names(*layer.clone()) == names(layer));
}

TEST_CASE("a std::map of members is listed by its keys") {
  struct Heads final : nn::Layer {
    Tensor forward(const Tensor& x) const { return layers.at("left")(x) + shared.at("right")->forward(x); }
    FIT_FIELDS_ONLY(layers, shared)
    std::map<std::string, nn::Linear> layers;
    std::map<std::string, std::shared_ptr<nn::Linear>> shared;
  } heads;
  heads.layers.emplace("left", nn::Linear(2, 1, false));
  heads.shared.emplace("right", std::make_shared<nn::Linear>(2, 1, false));
  CHECK(names(heads) == std::vector<std::string>{"layers.left.weight", "shared.right.weight"});
  CHECK(names(*heads.clone()) == names(heads));
  heads.replace("shared.right", std::make_shared<nn::Linear>(2, 1));
  CHECK(names(heads).size() == 3);
  heads.layers.emplace("in.valid", nn::Linear(2, 1));
  CHECK_THROWS_WITH(heads.parameters(), Contains("the map layers has the key 'in.valid'"));
}

TEST_CASE("a layer that was moved from says so, and is whole again after an assignment") {
  nn::Linear layer(2, 3);
  nn::Linear other = std::move(layer);
  CHECK(layer.moved_from());
  CHECK_FALSE(other.moved_from());
  const std::string expected =
      "[Linear] this layer was moved from: use the one that std::move() made of it, or assign a new layer";
  CHECK_THROWS_WITH(layer(ones({1, 2})), expected);
  CHECK_THROWS_WITH(layer.named_parameters(), expected);
  CHECK_THROWS_WITH(layer.state_dict(), expected);
  CHECK(other(ones({1, 2})).shape() == Shape{1, 3});
  layer = nn::Linear(2, 4);
  CHECK(layer(ones({1, 2})).shape() == Shape{1, 4});
  CHECK(layer.parameters().size() == 2);

  nn::Sequential net(nn::Linear(2, 3), nn::ReLU());
  const nn::Sequential moved = std::move(net);
  CHECK_THROWS_WITH(net.parameters(), Contains("[Sequential] this layer was moved from"));
  CHECK(moved.parameters().size() == 2);
}

TEST_CASE("vectors and maps of std::unique_ptr are listed, though they can't be copied") {
  struct Owner : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return (*heads.at("left"))((*list[0])(x)); }
    FIT_FIELDS_ONLY(list, heads)
    std::vector<std::unique_ptr<nn::Linear>> list;
    std::map<std::string, std::unique_ptr<nn::Linear>> heads;
  } owner;
  owner.list.push_back(std::make_unique<nn::Linear>(3, 2, false));
  owner.heads["left"] = std::make_unique<nn::Linear>(2, 1, false);
  CHECK(owner.named_parameters().size() == 2);
  CHECK(owner.named_parameters()[0].first == "list.0.weight");
  CHECK(owner.named_parameters()[1].first == "heads.left.weight");
  CHECK(owner(ones({1, 3})).shape() == Shape{1, 1});
  CHECK_THROWS_WITH(owner.clone(), Catch::Contains("has a member that can't be copied"));
}

TEST_CASE("a layer that holds itself is an error, in every walk") {
  const auto outer = std::make_shared<nn::Sequential>(nn::ReLU()), inner = std::make_shared<nn::Sequential>();
  const auto shared = std::make_shared<nn::Linear>(2, 2);
  outer->add(shared);
  outer->add(shared);  // twice, but not in itself
  CHECK(outer->named_parameters().size() == 2);
  outer->add(inner);
  inner->add(outer);
  const auto told = Contains("[Sequential] holds itself, directly or in a sublayer");
  CHECK_THROWS_WITH(outer->named_parameters(), told);
  CHECK_THROWS_WITH(outer->state_dict(), told);
  CHECK_THROWS_WITH(inner->eval(), told);
  CHECK_THROWS_WITH(outer->str(), told);
  CHECK_THROWS_WITH(outer->clone(), told);
  outer->replace("3", shared);  // else neither would ever be freed
}

}  // namespace fit::test::layer_list_test
