#include <type_traits>

#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Operations of a user's own, through record(): what they may keep and what their adjoints see.
//
// An adjoint that captures a Tensor (or anything else with a destructor) does not compile: record() says "an adjoint
// captures plain values only".
namespace fit::test::record_test {
namespace {

using Catch::Matchers::Contains;
using V = std::vector<double>;

Tensor leaf(const Nested& numbers) { return tensor(numbers, float64).requires_grad_(); }

// a * b + c, where c may be undefined, with a look at what is kept.
Tensor multiply_add(const Tensor& a, const Tensor& b, const Tensor& c) {
  const NoGrad no_grad;
  Tensor product = a * b;
  Tensor y = c.defined() ? product + c : product;
  const EnableGrad on;
  const int64_t n = product.numel();
  return record("multiply_add", {a, b, c}, y, keep::input(1, 0) | keep::output | keep::saved(product, c),
                [n](Backward& g) {
                  CHECK(g.inputs() == 3);
                  CHECK(g.saved(0).numel() == n);
                  CHECK(max_difference(g.saved(0), g.x(0) * g.x(1)) == 0);
                  CHECK(max_difference(g.y(), g.has_saved(1) ? g.saved(0) + g.saved(1) : g.saved(0)) == 0);
                  if (g.wants(0)) g.give(0, g.dy() * g.x(1));
                  if (g.wants(1)) g.give(1, g.dy() * g.x(0));
                  g.give(2, g.dy());
                });
}

// {x + 1, the whole part of x, 2 x}: one node with several outputs, one of which isn't floating.
std::vector<Tensor> several(const Tensor& x) {
  std::vector<Tensor> y;
  {
    const NoGrad no_grad;
    y = {x + 1, x.to(int64), x * 2};
  }
  record("several", {x}, y, keep::nothing, [](Backward& b) {
    Tensor dx = b.dy(0) + b.dy(2) * 2;
    if (!b.has_dy(0)) dx = dx * 1000;  // so that the test can see it
    b.give(0, dx);
  });
  return y;
}

}  // namespace

TEST_CASE("an op keeps inputs, outputs and values of its own", "[record]") {
  const Tensor a = leaf({2, 3}), b = leaf({5, 7}), c = leaf({1, 1});
  sum(multiply_add(a, b, c) * 10).backward();
  CHECK(values(a.grad()) == V{50, 70});
  CHECK(values(b.grad()) == V{20, 30});
  CHECK(values(c.grad()) == V{10, 10});
  SECTION("an undefined input wants nothing") { CHECK(values(grad({sum(multiply_add(a, b, {}))}, {a})[0]) == V{5, 7}); }
  SECTION("an input that wants no gradient gets none") {
    CHECK(values(grad({sum(multiply_add(a.detach(), b, c.detach()))}, {b})[0]) == V{2, 3});
  }
  SECTION("no graph where nothing wants one") { CHECK_FALSE(multiply_add(a.detach(), b.detach(), {}).requires_grad()); }
}

TEST_CASE("several outputs are one node", "[record]") {
  const Tensor x = leaf({1, 2});
  const auto y = several(x);
  CHECK(y[0].requires_grad());
  CHECK_FALSE(y[1].requires_grad());
  CHECK(y[2].requires_grad());
  CHECK(values(grad({y[0], y[2]}, {x}, {ones({2}, float64), ones({2}, float64)}, retain_graph)[0]) == V{3, 3});
  CHECK(values(grad({y[0]}, {x}, {ones({2}, float64)}, retain_graph)[0]) == V{1, 1});
  CHECK(values(grad({y[2]}, {x}, {ones({2}, float64)}, retain_graph)[0]) == V{2000, 2000});
  CHECK(values(grad({sum(y[0] * y[2])}, {y[0], y[2]})[0]) == V{2, 4});
}

TEST_CASE("target() lends the gradient to be written or added to", "[record]") {
  const auto twice = [](const Tensor& x) {
    return record("twice", {x}, (x.detach() * 2), keep::nothing, [](Backward& b) {
      const Tensor dy = b.dy();
      Backward::Target t = b.target(0);
      double* const g = t.grad.fresh<double>();
      for (std::int64_t i = 0; i < dy.numel(); ++i) g[i] = (t.add ? g[i] : 0) + 2 * dy.data<double>()[i];
    });
  };
  const Tensor x = leaf({1, 2});
  sum(twice(x)).backward();
  CHECK(values(x.grad()) == V{2, 2});
  sum(twice(x) + twice(x)).backward();
  CHECK(values(x.grad()) == V{6, 6});
  SECTION("a buffer that somebody else holds is left alone") {
    const Tensor seed = ones({2}, float64), u = x * 1;
    (u + twice(u)).backward(seed);
    CHECK(values(seed) == V{1, 1});
    CHECK(values(x.grad()) == V{9, 9});
  }
}

TEST_CASE("an op without a second derivative says so by name", "[record]") {
  const Tensor x = leaf({2});
  const Tensor y = record("first_only", {x}, x.detach() * 3, keep::nothing, [](Backward& b) {
    b.once_only();
    b.give(0, b.dy() * 3);
  });
  CHECK(values(grad({y}, {x}, retain_graph)[0]) == V{3});
  CHECK_THROWS_WITH(grad({y}, {x}, create_graph), Contains("[first_only]") && Contains("no derivative of this order"));
}

TEST_CASE("give() takes another floating type and a broadcast shape, and no other", "[record]") {
  const Tensor x = leaf({2, 3});
  const auto given = [&](const Tensor& g) {
    Tensor dx = g;
    const Tensor y = record("given", {x}, sum(x.detach()), keep::saved(dx), [](Backward& b) { b.give(0, b.saved(0)); });
    return grad({y}, {x})[0];
  };
  CHECK(values(given(tensor({4., 5.}))) == V{4, 5});
  CHECK(given(tensor({4., 5.})).dtype() == float64);
  CHECK(values(given(ones({3, 2}, float64))) == V{3, 3});
  CHECK_THROWS_AS(given(ones({3}, float64)), Error);
  CHECK_THROWS_AS(given(ones({}, float64)), Error);
}

TEST_CASE("an adjoint that asks for what is not there gets an error that names its op", "[record]") {
  const Tensor x = leaf({1, 2}), plain = ones({2}, float64);
  const auto run = [&](auto adjoint, const Keep& keep = keep::nothing) {
    return grad({sum(record("mine", {x, plain}, x.detach().clone(), keep, adjoint))}, {x});
  };
  const auto says = [](const char* what) { return Contains(std::string("[mine] its adjoint asks for ") + what); };
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, b.x(0)); }), says("input 0, which was not kept"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, b.x(0)); }, keep::input(1)), says("input 0, which was not kept"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, b.x(2)); }, keep::inputs), says("input 2: record() was given 2"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, b.x(-1)); }, keep::inputs), says("input -1"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, b.y()); }, keep::inputs), says("an output, which was not kept"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, b.y(1)); }, keep::output), says("output 1: record() was given 1"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, b.dy(1)); }), says("output 1: record() was given 1"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, b.saved(1)); }, keep::saved(plain)), says("saved value 1"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(b.has_saved(0), b.dy()); }, keep::inputs), says("saved value 0"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(2, b.dy()); }), says("input 2: record() was given 2"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, ones(b.shape(1))); }),
                    says("the shape or gradient of input 1, which wants none"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.target(1); }), says("the shape or gradient of input 1, which wants none"));
  CHECK_THROWS_AS(run([](Backward& b) { b.give(0, Tensor()); }), Error);
}

TEST_CASE("take_dy() hands on the gradient that came in, once", "[record]") {
  const Tensor x = leaf({1, 2});
  const auto scaled = [&x](bool twice) {
    return record("scaled", {x}, tensor({3., 6.}, float64), keep::nothing, [twice](Backward& b) {
      Tensor dy = b.take_dy();
      CHECK(dy.unique());
      CHECK(values(dy) == V{2, 2});
      if (twice) dy = dy + b.dy();
      b.give(0, dy * 3);
    });
  };
  sum(scaled(false) * 2).backward();
  CHECK(values(x.grad()) == V{6, 6});
  CHECK_THROWS_WITH(sum(scaled(true) * 2).backward(), Contains("[scaled] its adjoint asks for dy(0) after take_dy(0)"));
  // Of an output to which nothing came back it is zeros, as dy() is.
  const Tensor y = leaf({5});
  std::vector<Tensor> two{y.detach() * 1, y.detach() * 2};
  record("two", {y}, two, keep::nothing, [](Backward& b) { b.give(0, b.take_dy(0) + b.take_dy(1)); });
  sum(two[1]).backward();
  CHECK(values(y.grad()) == V{1});
  // One that is taken says nothing of another.
  const Tensor z = leaf({5});
  std::vector<Tensor> many;
  for (int i = 0; i < 65; ++i) many.push_back(z.detach() * 1);
  record("many", {z}, many, keep::nothing, [](Backward& b) {
    const Tensor first = b.take_dy(0);
    b.give(0, first + b.dy(64));
  });
  sum(many[0]).backward();
  CHECK(values(z.grad()) == V{1});
}

TEST_CASE("an output of record() is a tensor of its own", "[record]") {
  const Tensor x = leaf({1, 2});
  const auto adjoint = [](Backward& b) { b.give(0, b.dy()); };
  CHECK_THROWS_WITH(record("mine", {x}, x, keep::nothing, adjoint), Contains("[mine] output 0") && Contains("input 0"));
  std::vector<Tensor> outputs{x.detach().clone(), Tensor()};
  CHECK_THROWS_WITH(record("mine", {x}, outputs, keep::nothing, adjoint), Contains("[mine] output 1"));
  CHECK(x.is_leaf());
}

TEST_CASE("keep::saved has room for 6, also if it is joined", "[record]") {
  const Tensor x = leaf({2});
  const auto sum_of_saved = [](Backward& b) {
    for (int i = 0; i < 6; ++i) b.give(0, b.saved(i));
  };
  const Keep three = keep::saved(x, x, x);
  CHECK(values(grad({record("six", {x}, x.detach().clone(), three | three, sum_of_saved)}, {x})[0]) == V{12});
  CHECK_THROWS_WITH(three | keep::output | keep::saved(x) | three, Contains("[keep] more than 6 values"));
}

TEST_CASE("keep::inputs has room for 31", "[record]") {
  const Tensor x = leaf({2});
  const auto join = [&](int count, const Keep& keep) {
    return record("join", std::vector<Tensor>(static_cast<std::size_t>(count), x), zeros({1}, float64), keep,
                  [](Backward& b) {
                    for (int i = 0; i < b.inputs(); ++i) b.give(i, b.dy() * b.x(i));
                  });
  };
  CHECK(values(grad({join(31, keep::inputs)}, {x})[0]) == V{62});
  CHECK_THROWS_WITH(join(32, keep::inputs), Contains("[join]") && Contains("31"));
}

TEST_CASE("an adjoint that forgets an input is told, and one that gives none is not", "[record]") {
  const Tensor x = leaf({1, 2}), y = leaf({3, 4});
  const auto product = [&](const auto& of_y) {
    return sum(record("product", {x, y}, x.detach() * y.detach(), keep::inputs, [of_y](Backward& b) {
      b.give(0, b.dy() * b.x(1));
      of_y(b);
    }));
  };
  const auto forgotten = [](Backward&) {};
  CHECK_THROWS_WITH(product(forgotten).backward(),
                    "[product] its adjoint gives input 1 of shape [2] no gradient, though it wants one: call b.give(1, "
                    "…), or b.give(1, Tensor()) if the outputs do not depend on it");
  CHECK_THROWS_WITH(grad(product(forgotten), y), Contains("[product] its adjoint gives input 1"));
  CHECK(values(grad(product(forgotten), x)) == V{3, 4});  // y is not wanted
  Tensor(x).zero_grad();
  product([](Backward& b) { b.give(1, Tensor()); }).backward();
  CHECK(values(x.grad()) == V{3, 4});
  CHECK_FALSE(y.has_grad());
  // The inputs from 63 on are checked together.
  const auto last = [&](int given) {
    std::vector<Tensor> inputs(70, x);
    return record("many", inputs, zeros({2}, float64), keep::nothing, [given](Backward& b) {
      for (int i = 0; i < given; ++i) b.give(i, b.dy());
    });
  };
  CHECK(values(grad(sum(last(70)), x)) == V{70, 70});
  CHECK_THROWS_WITH(grad(sum(last(63)), x), Contains("[many] its adjoint gives input 63"));
}

}  // namespace fit::test::record_test
