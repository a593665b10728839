#include "fit/graph/hooks.hpp"

#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Hooks of leaves: called once, when the gradient is complete; and what is called between nodes.
namespace fit::test::hooks_test {
namespace {

using Catch::Matchers::Contains;
using V = std::vector<double>;
using Calls = std::vector<std::string>;

Tensor leaf(const Nested& numbers) { return tensor(numbers, float64).requires_grad_(); }

// x, passed on; its adjoint notes that it ran.
Tensor noted(const Tensor& x, Calls* calls, const char* name) {
  return record("noted", {x}, x.detach(), keep::nothing, [calls, name](Backward& b) {
    calls->push_back(name);
    b.give(0, b.dy());
  });
}

// Calls a function between the nodes of backward().
struct Poll final : Observer {
  explicit Poll(Callable<void()> g) : f(std::move(g)) {}
  void node_left(const NodeEvent&) override { f(); }
  Callable<void()> f;
};

// x, passed on, to which its adjoint gives nothing.
Tensor silent(const Tensor& x) {
  return record("silent", {x}, x.detach(), keep::nothing, [](Backward& b) { b.give(0, Tensor()); });
}

// factor x; its adjoint gives the gradient later.
Tensor later(const Tensor& x, double factor, Calls* calls) {
  return record("later", {x}, x.detach() * factor, keep::nothing, [factor, calls](Backward& b) {
    calls->push_back(b.waits(0) ? "waits" : "does not wait");
    b.give_later(0, {b.dy()}, [dy = b.dy(), factor, calls] {
      calls->push_back("gives");
      return dy * factor;
    });
  });
}

}  // namespace

TEST_CASE("a hook runs as soon as the leaf's gradient is complete, before older nodes", "[hooks]") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  Calls calls;
  V seen;
  const GradHook first = register_post_accumulate_grad_hook(a, [&](const Tensor&) { calls.push_back("a"); });
  const GradHook second = register_post_accumulate_grad_hook(b, [&](const Tensor& x) {
    calls.push_back("b");
    seen = values(x.grad());
    CHECK(x.impl() == b.impl());
    CHECK_FALSE(grad_enabled());
  });
  const Tensor early = noted(a * 2, &calls, "early");
  sum(noted(early * b, &calls, "late")).backward();
  CHECK(calls == Calls{"late", "b", "early", "a"});
  CHECK(seen == V{2, 4});
}

TEST_CASE("a leaf that is used twice has one call, after the second use", "[hooks]") {
  const Tensor w = leaf({1, 2});
  std::vector<V> seen;
  const GradHook hook =
      register_post_accumulate_grad_hook(w, [&](const Tensor& x) { seen.push_back(values(x.grad())); });
  SECTION("by two nodes") { sum((w * 2) * (w * 3)).backward(); }
  SECTION("twice by one node") { sum(6 * w * w).backward(); }
  CHECK(seen == std::vector<V>{{12, 24}});
  CHECK(values(w.grad()) == V{12, 24});
}

TEST_CASE("a gradient may wait until the next one of its leaf", "[hooks]") {
  const Tensor w = leaf({1, 2}), x = leaf({3, 4});
  Calls calls;
  const auto backward = [&](const Tensor& loss, GraphFlags flags = {}) {
    const GradHook hook = register_post_accumulate_grad_hook(w, [&](const Tensor&) { calls.push_back("hook"); });
    loss.backward(flags);
  };
  // The older node gives to w at the end.
  const Tensor older = noted(w * 2, &calls, "older");
  SECTION("if it is the first of several") {
    const Tensor between = noted(older * x, &calls, "between");
    backward(sum(between * later(w, 5, &calls)));
    CHECK(calls == Calls{"waits", "between", "older", "gives", "hook"});
    CHECK(values(w.grad()) == V{60, 160});  // d(10 w w x)
  }
  SECTION("which is added to it: the order stays") {
    const Tensor last = w * -1e16, second = w * 1e16;
    backward(sum(last + second + later(w, 1, &calls)));
    CHECK(calls == Calls{"waits", "gives", "hook"});
    CHECK(values(w.grad()) == V{0, 0});  // (1 + 1e16) - 1e16
  }
  SECTION("and comes at the end if the next node gives nothing") {
    backward(sum(later(w, 5, &calls) + silent(older)));
    CHECK(calls == Calls{"waits", "gives", "hook"});
    CHECK(values(w.grad()) == V{5, 5});
  }
  SECTION("but not if it is the only one") {
    backward(sum(later(w, 5, &calls)));
    CHECK(calls == Calls{"does not wait", "gives", "hook"});
  }
  SECTION("nor without a hook") {
    sum(older * later(w, 5, &calls)).backward();
    CHECK(calls == Calls{"does not wait", "gives", "older"});
    CHECK(values(w.grad()) == V{20, 40});
  }
  SECTION("nor in a graph that is retained") {
    backward(sum(older * later(w, 5, &calls)), retain_graph);
    CHECK(calls == Calls{"does not wait", "gives", "older", "hook"});
  }
  SECTION("nor if the leaf has a gradient already") {
    sum(w).backward();
    backward(sum(older * later(w, 5, &calls)));
    CHECK(calls == Calls{"does not wait", "gives", "older", "hook"});
    CHECK(values(w.grad()) == V{21, 41});
  }
  SECTION("and is forgotten after an exception") {
    const Tensor fails =
        record("fragile", {older}, older.detach(), keep::nothing, [](Backward&) { throw Error("[fragile] fails"); });
    CHECK_THROWS_WITH(backward(sum(fails * later(w, 5, &calls))), "[fragile] fails");
    CHECK(calls == Calls{"waits"});
    CHECK_FALSE(w.has_grad());
    calls.clear();
    backward(sum(noted(w * 2, &calls, "older") * later(w, 5, &calls)));
    CHECK(values(w.grad()) == V{20, 40});
  }
  SECTION("nor if it is computed from another leaf, which may take a step before") {
    const Tensor a = full({1, 8}, 2).requires_grad_(), b = ones({8, 8}).requires_grad_();
    const GradHook step = register_post_accumulate_grad_hook(a, [](const Tensor& leaf) { Tensor(leaf).fill_(100); });
    const GradHook hook = register_post_accumulate_grad_hook(b, [](const Tensor&) {});
    const Tensor first = b * 1;
    (sum(matmul(a, b)) + sum(first)).backward();
    CHECK(values(b.grad()) == V(64, 2 + 1));
  }
  SECTION("from what does not change before") {
    const Tensor read = w.detach() * 1;
    const Tensor change = record("change", {older}, older.detach() * 1, keep::nothing, [p = &read](Backward& b) {
      Tensor(*p).add_(1);
      b.give(0, b.dy());
    });
    const Tensor last = record("late", {w}, w.detach() * 1, keep::nothing,
                               [p = &read](Backward& b) { b.give_later(0, {*p}, [p] { return *p * 1; }); });
    CHECK_THROWS_WITH(backward(sum(change + last)), Contains("that late needs") && Contains("changed in place"));
  }
  SECTION("of the input's shape") {
    const Tensor y = record("wrong", {w}, w.detach() * 1, keep::nothing,
                            [](Backward& b) { b.give_later(0, {}, [] { return zeros({3}, float64); }); });
    CHECK_THROWS_WITH(backward(sum(older * y)), Contains("[wrong] the gradient of give_later()") && Contains("[3]"));
  }
}

TEST_CASE("each backward calls, with what was there before", "[hooks]") {
  const Tensor w = leaf({1, 2});
  std::vector<V> seen;
  const GradHook hook =
      register_post_accumulate_grad_hook(w, [&](const Tensor& x) { seen.push_back(values(x.grad())); });
  const Tensor loss = sum(w * 3);
  loss.backward(retain_graph);
  loss.backward();
  sum(w).backward();
  CHECK(seen == std::vector<V>{{3, 3}, {6, 6}, {7, 7}});
  CHECK(grad(sum(w * w), w).defined());
  CHECK(seen.size() == 3);  // grad() calls none
}

TEST_CASE("a leaf that is the output itself has its call, too", "[hooks]") {
  const Tensor w = leaf(2);
  int calls = 0;
  const GradHook hook = register_post_accumulate_grad_hook(w, [&](const Tensor&) { ++calls; });
  w.backward();
  CHECK(calls == 1);
}

TEST_CASE("a leaf on the way to which nothing is given", "[hooks]") {
  const Tensor w = leaf({1, 2}), v = leaf({1, 2});
  Calls calls;
  const GradHook one = register_post_accumulate_grad_hook(w, [&](const Tensor&) { calls.push_back("w"); });
  const GradHook other = register_post_accumulate_grad_hook(v, [&](const Tensor&) { calls.push_back("v"); });
  SECTION("has no call") {
    sum(v + silent(w * 2)).backward();
    CHECK(calls == Calls{"v"});
  }
  SECTION("has one at the end, if it is given something on another way") {
    sum(v + w + silent(w * 2)).backward();
    CHECK(calls == Calls{"v", "w"});
  }
  SECTION("has none if the graph doesn't reach it") {
    sum(v * 2).backward();
    CHECK(calls == Calls{"v"});
  }
}

TEST_CASE("under create_graph the gradient that a hook sees is recorded", "[hooks]") {
  const Tensor w = leaf({1, 2});
  V second;
  const GradHook hook = register_post_accumulate_grad_hook(w, [&](const Tensor& x) {
    REQUIRE(grad_enabled());
    second = values(grad(sum(x.grad()), w, retain_graph));
  });
  sum(w * w * w).backward(create_graph);
  CHECK(second == V{6, 12});
  Tensor(w).zero_grad();
}

TEST_CASE("a hook may change the gradient or put another in its place", "[hooks]") {
  const Tensor w = leaf({1, 2});
  SECTION("changed") {
    const GradHook hook = register_post_accumulate_grad_hook(w, [](const Tensor& x) { x.grad().mul_(10); });
    sum(w * 2).backward();
    CHECK(values(w.grad()) == V{20, 20});
  }
  SECTION("replaced") {
    const GradHook hook =
        register_post_accumulate_grad_hook(w, [](const Tensor& x) { Tensor(x).set_grad(full({2}, 7, float64)); });
    sum(w * 2).backward();
    CHECK(values(w.grad()) == V{7, 7});
    sum(w * 2).backward();
    CHECK(values(w.grad()) == V{7, 7});
  }
}

TEST_CASE("a hook that throws leaves the library usable", "[hooks]") {
  const Tensor w = leaf({1, 2}), v = leaf({1, 2});
  int calls = 0;
  bool angry = true;
  const GradHook hook = register_post_accumulate_grad_hook(w, [&](const Tensor&) {
    ++calls;
    if (angry) throw std::runtime_error("no");
  });
  const Tensor loss = sum((v * 2) * w);
  CHECK_THROWS_WITH(loss.backward(retain_graph), "no");
  angry = false;
  Tensor(w).zero_grad(), Tensor(v).zero_grad();
  loss.backward();
  CHECK(calls == 2);
  CHECK(values(w.grad()) == V{2, 4});
  CHECK(values(v.grad()) == V{2, 4});
}

TEST_CASE("a handle takes its hook away", "[hooks]") {
  const Tensor w = leaf({1, 2});
  Calls calls;
  GradHook second;
  GradHook first = register_post_accumulate_grad_hook(w, [&](const Tensor&) {
    calls.push_back("first");
    first.remove();
    second.remove();
  });
  second = register_post_accumulate_grad_hook(w, [&](const Tensor&) { calls.push_back("second"); });
  GradHook third = register_post_accumulate_grad_hook(w, [&](const Tensor&) { calls.push_back("third"); });
  sum(w).backward();
  CHECK(calls == Calls{"first", "third"});
  { const GradHook moved = std::move(third); }
  sum(w).backward();
  CHECK(calls.size() == 2);
}

TEST_CASE("handles outlive their leaf, and hooks wait while it is frozen", "[hooks]") {
  GradHook hook;
  {
    const Tensor w = leaf({1, 2});
    hook = register_post_accumulate_grad_hook(w, [w](const Tensor&) {});
  }
  hook.remove();
  Tensor w = leaf({1, 2});
  int calls = 0;
  hook = register_post_accumulate_grad_hook(w, [&](const Tensor&) { ++calls; });
  const Tensor before = sum(w);
  w.requires_grad_(false);
  before.backward({}, retain_graph);
  CHECK(calls == 0);
  w.requires_grad_();
  CHECK(!w.has_grad());
  before.backward();
  CHECK(calls == 1);
  CHECK(w.grad().to_vector<double>() == std::vector<double>{1, 1});
  w.requires_grad_(false);
  CHECK(!w.has_grad());
  w.requires_grad_();
  CHECK(w.has_grad());  // as before it was frozen
  w.requires_grad_(false);
  w.zero_grad();
  w.requires_grad_();
  CHECK(!w.has_grad());
}

TEST_CASE("a backward within a backward calls the hooks of both", "[hooks]") {
  const Tensor w = leaf({1, 2});
  std::vector<V> seen;
  const GradHook hook =
      register_post_accumulate_grad_hook(w, [&](const Tensor& x) { seen.push_back(values(x.grad())); });
  const Tensor* const p = &w;
  const Tensor y = record("nested", {w}, w.detach(), keep::nothing, [p](Backward& b) {
    {
      const EnableGrad on;
      sum(*p * 5).backward();
    }
    b.give(0, b.dy());
  });
  sum(y * 2 + w).backward();
  CHECK(seen == std::vector<V>{{6, 6}, {8, 8}});
}

TEST_CASE("between the nodes of a backward the program is called", "[hooks]") {
  const Tensor w = leaf({1, 2});
  Calls calls;
  {
    Poll poll([&] { calls.push_back("poll"); });
    const Observe watching(poll);
    sum(noted(noted(w, &calls, "old"), &calls, "new")).backward();
    CHECK(calls == Calls{"poll", "new", "poll", "old", "poll"});
    {
      Poll angry([&] { throw std::runtime_error("no"); });
      const Observe also(angry);
      CHECK_THROWS_WITH(sum(w).backward(), "no");
    }
    calls.clear();
    sum(w).backward();
    CHECK(calls == Calls{"poll"});
  }
  sum(w).backward();
  CHECK(calls == Calls{"poll"});
}

TEST_CASE("a graph that is being walked can't be walked from within", "[hooks]") {
  const Tensor w = leaf({1, 2}), v = leaf({1, 2}), u = leaf({1, 1});
  const Tensor older = w * v, side = sum(older * 2);
  const GradHook hook =
      register_post_accumulate_grad_hook(u, [&](const Tensor&) { (void)grad(side, v, retain_graph); });
  const Tensor loss = sum(older * u);
  CHECK_THROWS_WITH(loss.backward(retain_graph), Contains("at mul is being walked by the backward() around this one"));
  Tensor(w).zero_grad(), Tensor(u).zero_grad();
  CHECK(values(grad(side, v, retain_graph)) == V{2, 4});
  const GradHook last = register_post_accumulate_grad_hook(  // what has been passed can be walked
      w, [&](const Tensor&) {
        CHECK(values(grad(side, v)) == V{2, 4});
      });
  sum(older).backward(retain_graph);
  CHECK(values(w.grad()) == V{1, 2});
}

TEST_CASE("what can't have a hook", "[hooks]") {
  const auto f = [](const Tensor&) {};
  const Tensor w = leaf({1, 2});
  CHECK_THROWS_WITH((void)register_post_accumulate_grad_hook(tensor({1., 2.}), f),
                    Contains("[register_post_accumulate_grad_hook]") && Contains("no leaf that wants a gradient"));
  CHECK_THROWS_AS((void)register_post_accumulate_grad_hook(w * 2, f), Error);
  CHECK_THROWS_WITH((void)register_post_accumulate_grad_hook(w, {}), Contains("empty"));
}

}  // namespace fit::test::hooks_test
