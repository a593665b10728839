#include "fit/base/memory.hpp"
#include "fit/detail/function_ref.hpp"
#include "fit/graph/graph.hpp"
#include "fit/graph/hooks.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// register_hook(): the gradient of any tensor, looked at and replaced.
namespace fit::test::grad_hooks_test {
namespace {

using Catch::Matchers::Contains;
using V = std::vector<double>;

Tensor leaf(const Nested& numbers) { return tensor(numbers, float64).requires_grad_(); }

}  // namespace

TEST_CASE("a tensor's hook sees its whole gradient once, and what it gives goes on from there", "[hooks]") {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 3;
  std::vector<V> seen;
  const GradHook look = register_hook(h, [&](const Tensor& g) { seen.push_back(values(g)); });
  const GradHook change = register_hook(h, [](const Tensor& g) { return g * 10; });
  const GradHook after = register_hook(h, [&](const Tensor& g) { seen.push_back(values(g)); });
  Tensor retained = h;
  retained.retain_grad();
  sum(h * h).backward();  // used twice: dh = 2 h
  CHECK(seen == std::vector<V>{{6, 12}, {60, 120}});
  CHECK(values(h.grad()) == V{60, 120});
  CHECK(values(x.grad()) == V{180, 360});
}

TEST_CASE("a leaf's hook sees what this pass brings, and grad() has the sum", "[hooks]") {
  const Tensor w = leaf({1, 2});
  sum(w * 5).backward();
  std::vector<V> seen, total;
  const GradHook hook = register_hook(w, [&](const Tensor& g) {
    seen.push_back(values(g));
    return -g;
  });
  const GradHook after =
      register_post_accumulate_grad_hook(w, [&](const Tensor& leaf) { total.push_back(values(leaf.grad())); });
  sum(w * w).backward();
  sum(w * 2).backward();
  CHECK(seen == std::vector<V>{{2, 4}, {2, 2}});
  CHECK(total == std::vector<V>{{3, 1}, {1, -1}});
  CHECK(values(w.grad()) == V{1, -1});
}

TEST_CASE("hooks run under grad() too, and leave everybody's gradients alone", "[hooks]") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const Tensor h = x * w;
  const GradHook of_leaf = register_hook(x, [](const Tensor& g) { return g + 1; });
  const GradHook of_result = register_hook(h, [](const Tensor& g) { return 2 * g; });
  CHECK(values(grad(sum(h * h), x, retain_graph)) == V{37, 129});  // 2 (2 h) w + 1
  CHECK(values(grad(sum(h), h, retain_graph)) == V{2, 2});
  CHECK_FALSE(x.has_grad());
  CHECK_FALSE(w.has_grad());
}

TEST_CASE("under create_graph a hook's result is differentiated as well", "[hooks]") {
  const Tensor x = leaf({3});
  GradHook hook = register_hook(x, [](const Tensor& g) { return g * g; });
  const Tensor g = grad(sum(x * x), x, create_graph);  // (2 x)^2
  CHECK(values(g) == V{36});
  hook.remove();
  CHECK(values(grad(sum(g), x)) == V{24});  // 8 x
}

TEST_CASE("each output of a node has hooks of its own", "[hooks]") {
  const Tensor x = leaf({1, 2, 3, 4});
  const std::vector<Tensor> parts = split(x, 2);
  const GradHook first = register_hook(parts[0], [](const Tensor& g) { return 10 * g; });
  int calls = 0;
  const GradHook second = register_hook(parts[1], [&](const Tensor&) { ++calls; });
  sum(parts[0] * 1).backward();
  CHECK(values(x.grad()) == V{10, 10, 0, 0});
  CHECK(calls == 0);  // nothing came to that one
}

TEST_CASE("a hook may take itself away, be kept, or be forgotten with the graph", "[hooks]") {
  const Tensor w = leaf({1});
  int calls = 0;
  GradHook once;
  once = register_hook(w, [&](const Tensor&) {
    ++calls;
    once.remove();
  });
  (w * 2).backward();
  (w * 2).backward();
  CHECK(calls == 1);
  {
    GradHook kept = register_hook(w, [&](const Tensor&) { ++calls; });
    kept.keep();
  }
  (w * 2).backward();
  CHECK(calls == 2);
  const auto base = memory_stats().live_blocks;
  {
    const Tensor h = w * 2, y = h * 3;
    register_hook(h, [h](const Tensor&) {}).keep();  // holds its own tensor, until backward() is through
    y.backward();
  }
  CHECK(memory_stats().live_blocks == base);
  GradHook late;
  {
    const Tensor h = w * 2;
    late = register_hook(h, [](const Tensor&) {});
  }
  CHECK(memory_stats().live_blocks == base);  // the handle holds no graph
  late.remove();
}

TEST_CASE("a hook that throws, or gives what does not fit, leaves earlier gradients as they were", "[hooks]") {
  const Tensor w = leaf({1, 2});
  sum(w * 5).backward();
  const auto told = [&](const char* text, FunctionRef<Tensor(const Tensor&)> f) {
    const GradHook hook = register_hook(w, f);
    CHECK_THROWS_WITH(sum(w * 2).backward(), Contains(text));
    CHECK(values(w.grad()) == V{5, 5});
  };
  told("[test] no", [](const Tensor&) -> Tensor { throw Error("[test] no"); });
  told("[register_hook] what a hook gave for the gradient", [](const Tensor&) { return ones({3}, float64); });
  told("[register_hook] what a hook gave for the gradient", [](const Tensor&) { return ones({2}); });
  told("in place", [](const Tensor& g) { return Tensor(g).mul_(2); });
  sum(w * 2).backward();
  CHECK(values(w.grad()) == V{7, 7});
  const GradHook other = register_hook(w, [](const Tensor& g) { return g; });
  const Tensor fails =
      record("fragile", {w}, w.detach(), keep::nothing, [](Backward&) { throw Error("[fragile] no"); });
  CHECK_THROWS_WITH(sum(w * 2 + fails).backward(), Contains("[fragile] no"));
  CHECK(w.grad().defined());
}

TEST_CASE("a backward within a backward has hooks of its own", "[hooks]") {
  Tensor w = leaf({1});
  std::vector<V> seen;
  const GradHook hook = register_hook(w, [&](const Tensor& g) {
    seen.push_back(values(g));
    return 2 * g;
  });
  const Tensor y = record("inner", {w}, w.detach() * 3, keep::nothing, [p = &w](Backward& b) {
    {
      const EnableGrad on;
      sum(*p * 7).backward();
    }
    b.give(0, b.dy() * 3);
  });
  sum(y + w * 100).backward();
  CHECK(seen == std::vector<V>{{7}, {103}});
  CHECK(values(w.grad()) == V{220});
}

TEST_CASE("a gradient that a hook keeps is not changed by later passes", "[hooks]") {
  const Tensor w = leaf({1, 2});
  Tensor kept;
  const Tensor own = full({2}, 9., float64);
  const GradHook hook = register_hook(w, [&](const Tensor& g) {
    kept = g;
    return own;
  });
  sum(w * 2).backward();
  sum(w * 2).backward();
  CHECK(values(w.grad()) == V{18, 18});
  CHECK(values(own) == V{9, 9});
  CHECK(values(kept) == V{2, 2});
}

TEST_CASE("what can't have a gradient can't have a hook", "[hooks]") {
  const auto nothing = [](const Tensor&) {};
  CHECK_THROWS_WITH(register_hook(ones({2}), nothing), Contains("[register_hook]") && Contains("wants no gradient"));
  CHECK_THROWS_WITH(register_hook(Tensor(), nothing), Contains("[register_hook]") && Contains("undefined"));
  CHECK_THROWS_WITH(register_hook(leaf({1}), std::function<void(const Tensor&)>()), Contains("the hook is empty"));
}

}  // namespace fit::test::grad_hooks_test
