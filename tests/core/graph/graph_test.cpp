#include "fit/graph/graph.hpp"

#include "fit/graph/hooks.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// backward() and grad(): what they add up, in which order they walk, what they refuse.
namespace fit::test::graph_test {
namespace {

using Catch::Matchers::Contains;
using V = std::vector<double>;

Tensor leaf(const Nested& numbers) { return tensor(numbers, float64).requires_grad_(); }

// x, passed on; its adjoint counts its calls in *calls.
Tensor counted(const Tensor& x, int* calls) {
  return record("counted", {x}, x.detach(), keep::nothing, [calls](Backward& b) {
    ++*calls;
    b.give(0, b.dy());
  });
}

}  // namespace

TEST_CASE("backward adds to the gradient, exactly", "[graph]") {
  const Tensor w = leaf({1, 2});
  CHECK_FALSE(w.has_grad());
  sum(2 * w * w).backward();
  CHECK(values(w.grad()) == V{4, 8});
  sum(2 * w * w).backward();
  CHECK(values(w.grad()) == V{8, 16});
  Tensor(w).zero_grad();
  CHECK_FALSE(w.has_grad());
}

TEST_CASE("the contributions of one backward are summed by themselves, then added", "[graph]") {
  const float big = 1 << 24;  // the next float is big + 2
  const Tensor w = full({3}, 0).requires_grad_();
  Tensor(w).set_grad(full({3}, big));
  const Tensor before = w.grad();
  const auto backward = [&](GraphFlags flags) { (sum(w) + sum(w)).backward({}, flags); };
  SECTION("as usual") { backward({}); }
  SECTION("in a graph that stays") { backward(retain_graph); }
  SECTION("in a backward that is recorded") { backward(create_graph); }
  SECTION("with hooks") {
    const GradHook replacing = register_hook(w, [](const Tensor& g) { CHECK(values(g) == V{2, 2, 2}); });
    const GradHook after =
        register_post_accumulate_grad_hook(w, [&](const Tensor& leaf) { CHECK(values(leaf.grad()) == V(3, big + 2)); });
    backward({});
  }
  SECTION("in a backward within a backward") {
    const Tensor h = w * 1;
    const GradHook hook = register_hook(h, [&](const Tensor&) {
      const EnableGrad recorded;
      sum(w).backward();
    });
    sum(h).backward();
  }
  CHECK(values(w.grad()) == V(3, big + 2));
}

TEST_CASE("an earlier gradient costs memory for one leaf at a time", "[graph]") {
  constexpr std::int64_t size = 1 << 20;
  std::vector<Tensor> leaves;
  for (int i = 0; i < 8; ++i) {
    leaves.push_back(zeros({size}).requires_grad_());
    leaves.back().set_grad(ones({size}));
  }
  const std::int64_t before = memory_stats().live_bytes;
  std::int64_t largest = 0;
  Tensor total = leaf({0}).to(float32);
  std::vector<GradHook> hooks;
  for (const Tensor& w : leaves) {
    hooks.push_back(
        register_hook(total, [&](const Tensor&) { largest = std::max(largest, memory_stats().live_bytes - before); }));
    total = total + sum(w);
  }
  sum(total).backward();
  CHECK(largest > 0);
  CHECK(largest < 3 * 4 * size);
  for (const Tensor& w : leaves) CHECK(equal(w.grad(), full({size}, 2)));
}

TEST_CASE("a graph that was walked is gone, unless it is retained", "[graph]") {
  const Tensor w = leaf({1, 2});
  const Tensor loss = sum(w * w);
  SECTION("gone: an error, and the gradient stays as it was") {
    loss.backward();
    CHECK_THROWS_WITH(loss.backward(), Contains("[backward]") && Contains("at sum") && Contains("retain_graph"));
    CHECK_THROWS_WITH(grad({loss}, {w}), Contains("retain_graph"));
    CHECK(values(w.grad()) == V{2, 4});
  }
  SECTION("retained: again and again, the last time without") {
    loss.backward(retain_graph);
    loss.backward(retain_graph);
    loss.backward();
    CHECK(values(w.grad()) == V{6, 12});
    CHECK_THROWS_AS(loss.backward(), Error);
  }
  SECTION("what two graphs share is gone after the first") {
    const Tensor shared = w * w, one = sum(shared), two = sum(shared * 2);
    one.backward();
    CHECK_THROWS_WITH(two.backward(), Contains("at mul"));
    CHECK_THROWS_WITH(grad({sum(shared * 3)}, {w}, allow_unused), Contains("at mul"));
  }
}

TEST_CASE("what isn't one number needs a seed", "[graph]") {
  const Tensor w = leaf({{1, 2, 3}, {4, 5, 6}});
  const Tensor y = w * w;
  CHECK_THROWS_WITH(y.backward(), Contains("[2, 3]") && Contains("sum() or mean()") && Contains("pass a seed"));
  CHECK_THROWS_WITH(grad({y}, {w}), Contains("[grad]") && Contains("[2, 3]") && Contains("seed"));
  CHECK_THROWS_WITH(grad({y, y}, {w}, {ones({2, 3})}),
                    "[grad] output 1 has no grad_output and shape [2, 3], not one element: call sum() or mean() "
                    "first, or pass a seed of shape [2, 3]");
  CHECK_THROWS_WITH(y.backward(ones({3, 2}, float64)), Contains("[3, 2]") && Contains("[2, 3]"));
  CHECK_THROWS_WITH(grad({y}, {w}, {ones_like(y), ones_like(y)}),
                    "[grad] 2 grad_outputs for 1 outputs: at most one for each");
  CHECK(values(grad({y}, {w}, {ones_like(y)}, retain_graph)[0]) == V{2, 4, 6, 8, 10, 12});  // the graph is still there
  CHECK_THROWS_WITH(sum(tensor({1., 2.})).backward(), Contains("requires_grad_()"));
  CHECK_FALSE(w.has_grad());

  const Tensor seed = tensor({{1., 0., 0.}, {0., 0., -2.}});  // float32: converted
  y.backward(seed);
  CHECK(values(w.grad()) == V{2, 0, 0, 0, 0, -24});
  CHECK(w.grad().dtype() == float64);

  SECTION("one element of any rank needs none") {
    const Tensor x = leaf({{3}});
    (x * x).backward();
    CHECK(values(x.grad()) == V{6});
    CHECK(x.grad().shape() == Shape{1, 1});
  }
  SECTION("no element at all needs one, and gives an empty gradient") {
    const Tensor x = zeros({0, 3}).requires_grad_();
    (x * x).backward(zeros({0, 3}));
    CHECK(x.grad().shape() == Shape{0, 3});
  }
}

TEST_CASE("grad() of one output by several inputs takes a seed, with flags or without") {
  const Tensor a = tensor({1., 2.}).requires_grad_(), b = tensor({3., 5.}).requires_grad_(), seed = tensor({10., 100.});
  const Tensor y = a * b;
  const std::vector<Tensor> g = grad(y, {a, b}, seed, retain_graph);
  CHECK(equal(g[0], tensor({30., 500.})));
  CHECK(equal(grad(y, {a, b}, seed)[1], tensor({10., 200.})));
}

TEST_CASE("one tensor may be used many times", "[graph]") {
  for (int n = 2; n <= 10; ++n) {
    const Tensor x = leaf({1.5, -2});
    Tensor power = x, total = x, nested = x;
    for (int i = 1; i < n; ++i) {
      power = power * x;
      total = x + total;
      nested = nested + nested;
    }
    power.backward(ones({2}, float64));
    CHECK(values(x.grad())[0] == Approx(n * std::pow(1.5, n - 1)));
    CHECK(values(x.grad())[1] == Approx(n * std::pow(-2, n - 1)));
    CHECK(values(grad({total}, {x}, {ones({2}, float64)})[0]) == V(2, n));
    CHECK(values(grad({nested}, {x}, {ones({2}, float64)})[0]) == V(2, std::pow(2, n - 1)));
  }
}

TEST_CASE("a ladder of diamonds is walked in linear time", "[graph]") {
  const Tensor x = leaf({1});
  int calls = 0;
  Tensor y = x;
  for (int i = 0; i < 64; ++i) y = counted(y + y, &calls);
  y.backward();
  CHECK(calls == 64);
  CHECK(values(x.grad()) == V{std::pow(2., 64)});
}

TEST_CASE("nodes wait until every user has been there", "[graph]") {
  // The shortcut a reaches the output long before the long way does.
  const Tensor x = leaf({2});
  int calls = 0;
  const Tensor a = counted(x * x, &calls);
  Tensor way = a;
  for (int i = 0; i < 50; ++i) way = way * 1.0;
  (way * a + a).backward();  // x^4 + x^2
  CHECK(calls == 1);
  CHECK(values(x.grad()) == V{4 * 8 + 2 * 2});
}

TEST_CASE("many inputs, many users", "[graph]") {
  const Tensor x = leaf({1, 2});
  std::vector<Tensor> parts(5000, x);
  Tensor total = x * 0;
  for (const Tensor& p : parts) total = total + p;
  sum(total).backward();
  CHECK(values(x.grad()) == V{5000, 5000});

  const Tensor joined = record("join", parts, zeros({2}, float64), keep::nothing, [](Backward& b) {
    for (int i = 0; i < b.inputs(); ++i) b.give(i, b.dy());
  });
  CHECK(values(grad({joined}, {x}, {ones({2}, float64)})[0]) == V{5000, 5000});
}

TEST_CASE("two gradients never share a buffer that changes", "[graph]") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4}), seed = ones({2}, float64);
  SECTION("of two leaves") {
    (a + b).backward(seed);
    (a + a).backward(seed);
    CHECK(values(a.grad()) == V{3, 3});
    CHECK(values(b.grad()) == V{1, 1});
  }
  SECTION("of two tensors on the way") {
    const Tensor u = a * 1, v = b * 1;
    ((u + v) + u).backward(seed);
    CHECK(values(a.grad()) == V{2, 2});
    CHECK(values(b.grad()) == V{1, 1});
  }
  SECTION("of a leaf and the seed") {
    Tensor(a).backward(seed);
    Tensor(a).backward(seed);
    CHECK(values(a.grad()) == V{2, 2});
  }
  SECTION("of a result of grad() and what flows on") {
    Tensor u = a * 1, v = u * 1;
    const auto g = grad({v + v}, {v, u, a}, {seed});
    for (const Tensor& each : g) CHECK(values(each) == V{2, 2});
    Tensor(g[0]).fill_(7);
    CHECK(values(g[1]) == V{2, 2});
    CHECK(values(g[2]) == V{2, 2});
  }
  SECTION("of views of one tensor") {
    const Tensor m = leaf({{1, 2}, {3, 4}});
    const Tensor flat = reshape(m, {4});
    (flat + flat + reshape(m * 1, {4})).backward(ones({4}, float64));
    CHECK(values(m.grad()) == V{3, 3, 3, 3});
  }
  CHECK(values(seed) == V{1, 1});
}

TEST_CASE("grad() gives what is asked for and touches nobody's gradient", "[graph]") {
  const Tensor x = leaf({2, 3}), y = leaf({5, 7}), other = leaf({1});
  const Tensor u = x * y, v = u * u, loss = sum(v);
  x.backward(ones({2}, float64));
  SECTION("leaves and what lies on the way") {
    const auto g = grad({loss}, {x, u, v, loss});
    CHECK(values(g[0]) == V{2 * 2 * 25, 2 * 3 * 49});
    CHECK(values(g[1]) == V{20, 42});
    CHECK(values(g[2]) == V{1, 1});
    CHECK(values(g[3]) == V{1});
    CHECK(g[0].dtype() == float64);
    CHECK_FALSE(g[0].requires_grad());
  }
  SECTION("one input twice") {
    const auto g = grad({loss}, {y, y});
    CHECK(same_bits(g[0], g[1]));
    CHECK(values(g[0]) == V{2 * 5 * 4, 2 * 7 * 9});
  }
  SECTION("several outputs, with weights") {
    const auto g = grad({u, loss}, {x}, {full({2}, 10, float64), full({}, 2, float64)});
    CHECK(values(g[0]) == V{10 * 5 + 2 * 100, 10 * 7 + 2 * 294});
  }
  SECTION("several outputs; one element needs no weight") {
    const auto g = grad({u, loss}, {x}, {full({2}, 10, float64), Tensor()});
    CHECK(values(g[0]) == V{50 + 100, 70 + 294});
  }
  SECTION("what the outputs don't depend on") {
    CHECK_THROWS_WITH(grad({loss}, {x, other}),
                      Contains("[grad]") && Contains("input 1") && Contains("[1]") && Contains("allow_unused"));
    const auto g = grad({sum(x * y)}, {x, other}, allow_unused);
    CHECK(values(g[0]) == V{5, 7});
    CHECK_FALSE(g[1].defined());
  }
  SECTION("what wants no gradient") {
    CHECK_THROWS_WITH(grad({loss}, {x.detach()}), Contains("input 0") && Contains("requires_grad_()"));
    CHECK_THROWS_AS(grad({x.detach()}, {x}), Error);
    CHECK_THROWS_AS(grad({loss}, {Tensor()}), Error);
  }
  SECTION("branches that don't lead to an input are not walked") {
    int calls = 0;
    const Tensor through = counted(y, &calls);
    CHECK(values(grad({x * through}, {x}, {ones({2}, float64)})[0]) == V{5, 7});
    CHECK(calls == 0);
  }
  CHECK(values(x.grad()) == V{1, 1});
  CHECK_FALSE(y.has_grad());
  CHECK_FALSE(other.has_grad());
}

TEST_CASE("the graph is as good as new after grad(), with or without an error", "[graph]") {
  const Tensor x = leaf({2}), y = leaf({3}), other = leaf({1});
  const Tensor loss = x * x * y;
  grad({loss}, {x}, retain_graph);
  CHECK_THROWS_AS(grad({loss}, {x, other}, retain_graph), Error);
  loss.backward();
  CHECK(values(x.grad()) == V{12});
  CHECK(values(y.grad()) == V{4});
}

TEST_CASE("derivatives of higher order", "[graph]") {
  const Tensor x = leaf({2, -1});
  const Tensor seed = ones({2}, float64);
  const auto derivative = [&](const Tensor& f) { return grad({f}, {x}, {seed}, create_graph)[0]; };
  SECTION("x^4") {
    const Tensor first = derivative(x * x * x * x), second = derivative(first), third = derivative(second);
    CHECK(values(first) == V{32, -4});
    CHECK(values(second) == V{48, 12});
    CHECK(values(third) == V{48, -24});
    CHECK(values(derivative(third)) == V{24, 24});
  }
  SECTION("1 / x") {
    const Tensor first = derivative(1 / x), second = derivative(first), third = derivative(second);
    CHECK(values(first) == V{-0.25, -1});
    CHECK(values(second) == V{0.25, -2});
    CHECK(values(third) == V{-6. / 16, -6});
  }
  SECTION("mixed") {
    const Tensor y = leaf({3, 5});
    const Tensor by_x = derivative(x * x * y * y);  // 2 x y^2
    CHECK(values(grad({by_x}, {y}, {seed})[0]) == V{4 * 2 * 3, 4 * -1 * 5});
  }
  SECTION("a penalty on the gradient, through backward()") {
    const Tensor g = grad({sum(x * x * x)}, {x}, create_graph)[0];  // 3 x^2
    sum(g * g).backward();                                          // 36 x^3
    CHECK(values(x.grad()) == V{288, -36});
  }
  SECTION("backward(create_graph) leaves a gradient that can be differentiated") {
    sum(x * x * x).backward(create_graph);
    const Tensor g = x.grad();
    CHECK(g.requires_grad());
    CHECK(values(grad({sum(g)}, {x})[0]) == V{12, -6});
    Tensor(x).zero_grad();
  }
}

TEST_CASE("a value that was changed after it was recorded is an error that names the op", "[graph]") {
  const Tensor x = leaf({1, 2});
  Tensor k = tensor({3, 4}, float64);
  const Tensor loss = sum(x * k);
  SECTION("in place") { k.add_(1); }
  SECTION("by edit()") { k.edit<double>()[0] = 5; }
  SECTION("through a view") { reshape(k, {2, 1}).fill_(0); }
  SECTION("through an index") { k[{0}] = 1; }
  SECTION("through a detached handle") { k.detach().mul_(2); }
  CHECK_THROWS_WITH(loss.backward(), Contains("mul") && Contains("[2]") && Contains("in place") && Contains("clone()"));
  CHECK_FALSE(x.has_grad());
}

TEST_CASE("a gradient that was differentiated again must not have grown meanwhile", "[graph]") {
  const Tensor x = leaf({1, 2});
  sum(x * x * x).backward(create_graph);
  const Tensor penalty = sum(x.grad() * x.grad());
  sum(x * x).backward();  // adds to the gradient in place
  CHECK_THROWS_WITH(grad({penalty}, {x}), Contains("mul") && Contains("in place"));
  Tensor(x).zero_grad();
}

TEST_CASE("changes that no gradient needs are allowed", "[graph]") {
  const Tensor x = leaf({1, 2});
  Tensor k = tensor({3, 4}, float64);
  SECTION("add keeps nothing") {
    const Tensor loss = sum(x + k);
    k.fill_(0);
    loss.backward();
    CHECK(values(x.grad()) == V{1, 1});
  }
  SECTION("a clone") {
    const Tensor loss = sum(x * k.clone());
    k.fill_(0);
    loss.backward();
    CHECK(values(x.grad()) == V{3, 4});
  }
  SECTION("after backward") {
    sum(x * k).backward();
    k.fill_(0);
    CHECK(values(x.grad()) == V{3, 4});
  }
  SECTION("a parameter, under NoGrad, between two steps") {
    sum(x * x).backward();
    {
      const NoGrad no_grad;
      Tensor(x).sub_(0.5 * x.grad());
    }
    CHECK(values(x) == V{0, 0});
  }
}

TEST_CASE("retain_grad keeps the gradient of what was computed", "[graph]") {
  const Tensor x = leaf({1, 2});
  Tensor u = x * 3;
  u.retain_grad();
  u.retain_grad();
  const Tensor loss = sum(u * u);
  CHECK_FALSE(u.has_grad());
  loss.backward(retain_graph);
  CHECK(values(u.grad()) == V{6, 12});
  loss.backward();
  CHECK(values(u.grad()) == V{12, 24});
  CHECK(values(x.grad()) == V{36, 72});
  u.zero_grad();
  CHECK_FALSE(u.has_grad());

  Tensor constant = tensor({1.});
  CHECK_THROWS_WITH(constant.retain_grad(), Contains("[retain_grad]") && Contains("[1]"));
  const Tensor without = x * 3;
  sum(without).backward();
  CHECK_FALSE(without.has_grad());
}

TEST_CASE("detach cuts, clone does not", "[graph]") {
  const Tensor x = leaf({1, 2});
  Tensor cut = x.detach(), copy = x.clone();
  CHECK_FALSE(cut.requires_grad());
  CHECK(copy.requires_grad());
  CHECK(cut.raw() == x.raw());
  CHECK(copy.raw() != x.raw());
  sum(x * cut + copy * 10).backward();
  CHECK(values(x.grad()) == V{11, 12});
  cut.fill_(5);
  CHECK(values(x) == V{5, 5});
  CHECK(values(copy) == V{1, 2});
}

TEST_CASE("leaves and results know what they are", "[graph]") {
  Tensor x = leaf({1, 2});
  const Tensor constant = tensor({1.});
  Tensor y = x * x;
  CHECK(x.is_leaf());
  CHECK(constant.is_leaf());
  CHECK_FALSE(y.is_leaf());
  CHECK(std::string(x.grad_fn()) == "leaf");
  CHECK(std::string(constant.grad_fn()) == "none");
  CHECK(std::string(y.grad_fn()) == "mul");
  CHECK_THROWS_WITH(y.requires_grad_(false), Contains("[requires_grad_]") && Contains("mul") && Contains("detach()"));
  CHECK_THROWS_WITH(Tensor::empty({2}, int64).requires_grad_(), Contains("int64") && Contains("float"));
  CHECK_THROWS_AS(Tensor().requires_grad_(), Error);

  x.requires_grad_(false);
  CHECK_FALSE(x.requires_grad());
  CHECK_FALSE((x * x).requires_grad());
  y.backward(ones({2}, float64));  // recorded when it did: nobody waits for it any more
  CHECK_FALSE(x.has_grad());
  x.requires_grad_();
  sum(x * x).backward();
  CHECK(values(x.grad()) == V{2, 4});

  SECTION("set_grad replaces it, and checks it") {
    x.set_grad(tensor({5, 6}, float64));
    CHECK(values(x.grad()) == V{5, 6});
    CHECK_THROWS_WITH(x.set_grad(zeros({3}, float64)), Contains("[3]") && Contains("[2]"));
    CHECK_THROWS_WITH(x.set_grad(zeros({2})), Contains("float32") && Contains("float64"));
    CHECK_THROWS_AS(Tensor(constant).set_grad(zeros({1})), Error);
    x.set_grad({});
    CHECK_FALSE(x.has_grad());
  }
}

TEST_CASE("a leaf that nobody holds any more costs nothing and breaks nothing", "[graph]") {
  const Tensor w = leaf({3});
  Tensor y;
  {
    const Tensor x = leaf({2});
    y = w * x;
  }
  y.backward();
  CHECK(values(w.grad()) == V{2});
}

TEST_CASE("types are kept: each gradient has its tensor's", "[graph]") {
  const Tensor a = tensor({1., 2.}).requires_grad_(), b = leaf({3, 4});
  const Tensor y = a * b;
  CHECK(y.dtype() == float64);
  sum(y).backward();
  CHECK(a.grad().dtype() == float32);
  CHECK(b.grad().dtype() == float64);
  CHECK(values(a.grad()) == V{3, 4});
  CHECK(values(b.grad()) == V{1, 2});
}

TEST_CASE("an exception in an adjoint leaves the graph usable", "[graph]") {
  const Tensor x = leaf({2});
  bool fails = true;
  const Tensor u = x * x;
  const Tensor y = record("fragile", {u}, u.detach(), keep::nothing, [f = &fails](Backward& b) {
    if (*f) throw Error("[fragile] fails");
    b.give(0, b.dy());
  });
  const Tensor loss = y * 1 + u;
  CHECK_THROWS_WITH(loss.backward(retain_graph), "[fragile] fails");
  CHECK_THROWS_WITH(grad({loss}, {x}, retain_graph), "[fragile] fails");
  CHECK_FALSE(x.has_grad());
  fails = false;
  loss.backward(retain_graph);
  CHECK(values(x.grad()) == V{8});
  CHECK(values(grad({loss}, {x})[0]) == V{8});
}

TEST_CASE("an adjoint may run a backward() of its own", "[graph]") {
  // Recomputation: forward without a graph, the graph is made anew on the way back.
  const auto cube = [](const Tensor& x) { return x * x * x; };
  const Tensor x = leaf({2, 3}), w = leaf({1, 1});
  const Tensor inner = w * x;
  const NoGrad no_grad;
  Tensor y = cube(inner);
  const EnableGrad on;
  const Tensor out = record("recomputed", {inner}, std::move(y), keep::inputs, [cube](Backward& b) {
    const EnableGrad recording;
    const Tensor again = b.x(0).detach().requires_grad_();
    b.give(0, grad({cube(again)}, {again}, {b.dy()})[0]);
  });
  sum(out * out).backward();  // (w x)^6
  CHECK(values(x.grad()) == V{6 * 32, 6 * 243});
  CHECK(values(w.grad()) == V{6 * 64, 6 * 729});
}

TEST_CASE("an adjoint may call grad() on what leads back to its input, while another grad() is under way", "[graph]") {
  // d(sum w x^2)/dx through a form made anew on the way back, recorded for the second derivative.
  const Tensor x = leaf({2, 3}), w = leaf({5, 7});
  const auto square = [](const Tensor& v) {
    return record("recorded_anew", {v}, (v * v).detach(), keep::inputs, [](Backward& b) {
      const Tensor again = b.x(0) + 0;
      b.give(0, grad({again * again}, {again}, {b.dy()}, create_graph)[0]);
    });
  };
  const Tensor inner = w * x, loss = sum(square(inner));  // (w x)^2
  const std::vector<Tensor> first = grad({loss}, {x, inner, w}, create_graph);
  CHECK(values(first[0]) == V{2 * 25 * 2, 2 * 49 * 3});
  CHECK(values(first[1]) == V{20, 42});
  CHECK(values(first[2]) == V{2 * 5 * 4, 2 * 7 * 9});
  CHECK(values(grad({sum(first[0])}, {x})[0]) == V{50, 98});
  CHECK_FALSE(x.has_grad());
}

TEST_CASE("a tensor from before an earlier backward() is told from a loss that is walked twice", "[graph]") {
  const Tensor w = leaf({1, 2});
  const Tensor scaled = w * 2;  // as a layer may compute it in its constructor
  sum(scaled * w).backward();
  CHECK_THROWS_WITH(sum(scaled * w).backward(),
                    Contains("[backward] the graph at mul is from before an earlier backward()") &&
                        Contains("compute its result anew in each step, not in a constructor"));
  const Tensor loss = sum(w * w);
  loss.backward();
  CHECK_THROWS_WITH(loss.backward(), Contains("the graph at sum was taken apart") && Contains("pass retain_graph"));
}

}  // namespace fit::test::graph_test
