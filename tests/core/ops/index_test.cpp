#include <cmath>
#include <type_traits>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// x[{...}]: what it reads, what it writes, and what writing does to the graph. Errors of reading and gradients of both
// stand in the table of operations, too.
namespace fit::test::index_test {
namespace {

using Catch::Matchers::Contains;
using I = std::vector<std::int64_t>;
using V = std::vector<double>;

I ints(const Tensor& x) { return x.to_vector<std::int64_t>(); }
constexpr auto none = Range::none;

}  // namespace

TEST_CASE("numbers take axes away", "[index]") {
  const Tensor x = arange(24).reshape({2, 3, 4});
  CHECK(x[{1, 2, 3}].shape() == Shape{});
  CHECK(x[{1, 2, 3}].item<std::int64_t>() == 23);
  CHECK(x[{-1, 0, -2}].item<std::int64_t>() == 14);
  CHECK(x[1].shape() == Shape{3, 4});
  CHECK(x[1][-1][0].item<std::int64_t>() == 20);
  CHECK(ints(x[{0, range(), 1}]) == I{1, 5, 9});
  CHECK_THROWS_WITH(x[2],
                    Contains("[index] index 2 is out of range for axis 0 of shape [2, 3, 4]: it must be in -2 … 1"));
  CHECK_THROWS_WITH(zeros({})[0], Contains("1 entries for shape []"));
}

TEST_CASE("ranges are Python's", "[index]") {
  const Tensor x = arange(7);
  const auto got = [&](Range r) { return ints(x[{r}]); };
  CHECK(got(range()) == I{0, 1, 2, 3, 4, 5, 6});
  CHECK(got(range(2)) == I{2, 3, 4, 5, 6});
  CHECK(got(range(2, 4)) == I{2, 3});
  CHECK(got(range(-3, -1)) == I{4, 5});
  CHECK(got(range(none, 2)) == I{0, 1});
  CHECK(got(range(1, 100, 2)) == I{1, 3, 5});
  CHECK(got(range(-100, 2)) == I{0, 1});
  CHECK(got(range(5, 2)).empty());
  CHECK(got(range(7)).empty());
  CHECK(got(range(none, none, -1)) == I{6, 5, 4, 3, 2, 1, 0});
  CHECK(got(range(none, none, -3)) == I{6, 3, 0});
  CHECK(got(range(4, 1, -2)) == I{4, 2});
  CHECK(got(range(100, none, -4)) == I{6, 2});
  CHECK(got(range(1, -100, -1)) == I{1, 0});
  CHECK(got(range(none, -3, -1)) == I{6, 5});
  CHECK(got(range(1, 4, -1)).empty());
  CHECK(got(range(-100, -200, -1)).empty());
  CHECK(got(range(2, none, INT64_MAX)) == I{2});
  CHECK(got(range(2, none, INT64_MIN)) == I{2});
  CHECK(ints(arange(0)[{range(none, none, -1)}]).empty());
  CHECK(x[{range(3, 3)}].shape() == Shape{0});
  CHECK_THROWS_WITH((x[{range(0, 1, 0)}]), Contains("step of a range is 0"));
}

TEST_CASE("lists, ellipsis, new axes", "[index]") {
  const Tensor x = arange(24).reshape({2, 3, 4});
  CHECK(ints(x[{ellipsis, 1}]) == I{1, 5, 9, 13, 17, 21});
  CHECK(x[{ellipsis}].shape() == Shape{2, 3, 4});
  CHECK(ints(x[{1, ellipsis, range(0, 1)}]) == I{12, 16, 20});
  CHECK(x[{newaxis, 0, newaxis, ellipsis, newaxis}].shape() == Shape{1, 1, 3, 4, 1});
  CHECK(x[newaxis].shape() == Shape{1, 2, 3, 4});
  CHECK(same_bits(x[range(1, 2)], x[{range(1, 2)}]));
  CHECK_THROWS_WITH((x[{ellipsis, 1, ellipsis}]), Catch::Contains("2 ellipses: there can be at most one"));
  CHECK(x[{newaxis, newaxis, newaxis, newaxis, newaxis}].shape() == Shape{1, 1, 1, 1, 1, 2, 3, 4});
  CHECK_THROWS_WITH((x[{ellipsis, newaxis, newaxis, newaxis, newaxis, newaxis, newaxis}]),
                    Catch::Contains("the result has more than 8 axes"));
  CHECK(ints(x[{0, {2, 0, 2}, 0}]) == I{8, 0, 8});
  CHECK(ints(x[{0, {-1}, range(none, none, -1)}]) == I{11, 10, 9, 8});
  // A list's axis stays where it is, also between numbers.
  CHECK(x[{0, range(), {3, 1}}].shape() == Shape{3, 2});
  CHECK(ints(x[{range(none, none, -1), 0, {3, 1}}]) == I{15, 13, 3, 1});
  CHECK(x[{std::vector<std::int64_t>{}}].shape() == Shape{0, 3, 4});
  CHECK(zeros({3, 0})[{{0, 2}}].shape() == Shape{2, 0});
  CHECK_THROWS_WITH((x[{0, {0, 3}}]), Contains("index 3 is out of range for axis 1"));
  CHECK_THROWS_WITH((x[{{0, 1}, {0, 1, 2}}]), Contains("a list has 2 numbers, another 3"));
}

TEST_CASE("slice cuts one axis", "[index]") {
  const Tensor x = arange(6).reshape({2, 3});
  CHECK(ints(slice(x, -1, 1, 3)) == I{1, 2, 4, 5});
  CHECK(ints(slice(x, 1, none, none, -2)) == I{2, 0, 5, 3});
  CHECK(slice(x, 0, 5, 9).shape() == Shape{0, 3});
}

TEST_CASE("assignment writes into the tensor", "[index]") {
  Tensor x = zeros({3, 4}, int64);
  const auto version = x.version();
  SECTION("a number") {
    x[{1, -1}] = 5;
    CHECK(ints(x) == I{0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0});
    CHECK(x.version() > version);
  }
  SECTION("a row, repeated over every second one") {
    x[{range(none, none, 2)}] = tensor({1, 2, 3, 4});
    CHECK(ints(x) == I{1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4});
  }
  SECTION("a column, backwards") {
    x[{range(none, none, -1), range(0, 2)}] = tensor({{1}, {2}, {3}});
    CHECK(ints(x) == I{3, 3, 0, 0, 2, 2, 0, 0, 1, 1, 0, 0});
  }
  SECTION("by a list, with a new axis") {
    x[range(1, 2)] = x[range(1, 2)];
    x[{{2, 0}, newaxis, 1}] = tensor({{7}, {8}});
    CHECK(ints(x) == I{0, 8, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0});
  }
  SECTION("another type is converted") {
    x[0] = tensor({1., 2., 3., 4.});
    CHECK(ints(x[0]) == I{1, 2, 3, 4});
    CHECK_THROWS_WITH((x[{0}] = 0.5),
                      "[index_put_] the number 0.5 is not whole and the tensor is not floating: convert the tensor "
                      "with .to(float32)");
  }
  SECTION("nothing") {
    x[{range(2, 2)}] = 9;
    CHECK(ints(x) == I(12, 0));
  }
  SECTION("every handle sees it") {
    const Tensor other = x, flat = x.reshape({12});
    x[{0, 0}] = 1;
    CHECK(ints(other)[0] == 1);
    CHECK(ints(flat)[0] == 1);
  }
  SECTION("a named copy is a tensor of its own") {
    Tensor row = x[0];
    row[0] = 1;
    CHECK(ints(x) == I(12, 0));
  }
}

TEST_CASE("assignment with an operation", "[index]") {
  Tensor x = arange(6).to(float32).reshape({2, 3});
  x[0] += tensor({10., 20., 30.});
  x[{1, 0}] -= tensor(1.);
  x[{1, range(1)}] *= tensor(2.);
  x[{ellipsis, 2}] /= tensor(2.);
  CHECK(values(x) == V{10, 21, 16, 2, 8, 5});
  Tensor n = arange(2);
  n[0] += tensor(5);
  CHECK(ints(n) == I{5, 1});
  CHECK_THROWS_WITH((n[{0}] += tensor(0.5)), Contains("[add] the tensor is int64, the result float32"));
  CHECK_THROWS_WITH((n[{0}] /= tensor(2)), Contains("[div] the tensor is int64"));
}

TEST_CASE("a tensor may be assigned to parts of itself", "[index]") {
  Tensor x = arange(6).reshape({3, 2});
  x[0] = x[2];
  CHECK(ints(x) == I{4, 5, 2, 3, 4, 5});
  x[{range(1)}] = x[{range(0, 2)}];
  CHECK(ints(x) == I{4, 5, 4, 5, 2, 3});
  x[{range(none, none, -1)}] = x;
  CHECK(ints(x) == I{2, 3, 4, 5, 4, 5});
  x[{{1, 0}}] = x.reshape({3, 2})[{range(0, 2)}];
  CHECK(ints(x) == I{4, 5, 2, 3, 4, 5});
}

TEST_CASE("bad assignments change nothing", "[index]") {
  Tensor x = arange(4);
  CHECK_THROWS_WITH((x[{range(0, 2)}] = tensor({1, 2, 3})),
                    Contains("[index_put_] the value has shape [3]: it does not broadcast to [2]"));
  CHECK_THROWS_WITH((x[{range(0, 1)}] = tensor({{1}})), Contains("does not broadcast to [1]"));
  for (const Shape& shape : {Shape{3}, Shape{4, 1}}) {
    const Tensor mask = ones(shape, boolean);
    CHECK_THROWS_WITH((x[mask] = 1), Contains("the mask " + shape.str()) && Contains("those of the first axes"));
  }
  CHECK_THROWS_WITH((index_put_(x, {{1, 2, -3}}, tensor(1))),
                    Contains("the list for axis 0 of shape [4] names element 1 more than once"));
  CHECK_THROWS_WITH((x[{4}] = 1), Contains("index 4 is out of range"));
  CHECK(ints(x) == I{0, 1, 2, 3});
  CHECK(x.version() == 0);
}

TEST_CASE("what takes no two types says which one to convert to", "[index]") {
  CHECK_THROWS_WITH(index_add(zeros({3, 4}), 0, tensor({0}), zeros({1, 4}, bfloat16)),
                    Contains("[index_add] x is float32, src is bfloat16: both must have one type; convert one with "
                             ".to(float32)"));
}

TEST_CASE("only brackets on the tensor itself can be assigned to", "[index]") {
  using Element = decltype(std::declval<Tensor&>()[0]);
  using Nested = decltype(std::declval<Tensor&>()[0][0]);
  using Read = decltype(std::declval<const Tensor&>()[0]);
  STATIC_REQUIRE(std::is_assignable_v<Element, Tensor>);
  STATIC_REQUIRE_FALSE(std::is_assignable_v<Nested, Tensor>);
  STATIC_REQUIRE_FALSE(std::is_assignable_v<Read, Tensor>);
  STATIC_REQUIRE_FALSE(std::is_assignable_v<Indexed&, Tensor>);
  STATIC_REQUIRE(std::is_assignable_v<Tensor&, Tensor>);
  STATIC_REQUIRE_FALSE(std::is_assignable_v<Tensor, Tensor>);  // p.grad() = g, x.reshape({2}) = v
  STATIC_REQUIRE_FALSE(std::is_assignable_v<Tensor, const Tensor&>);
}

TEST_CASE("assignments are recorded", "[index]") {
  const Tensor a = tensor({1., 2., 3.}, float64).requires_grad_(), v = tensor({5., 7.}, float64).requires_grad_();
  SECTION("into what was computed") {
    Tensor x = a * 2;
    x[{range(1)}] = v;
    sum(x * tensor({1., 10., 100.}, float64)).backward();
    CHECK(values(a.grad()) == V{2, 0, 0});
    CHECK(values(v.grad()) == V{10, 100});
  }
  SECTION("into a plain tensor") {
    Tensor x = zeros({2, 2}, float64);
    for (int i = 0; i < 2; ++i) x[i] = v * (i + 1);
    CHECK(x.requires_grad());
    CHECK(values(x) == V{5, 7, 10, 14});
    sum(x * x).backward();
    CHECK(values(v.grad()) == V{50, 70});  // d/dv of v^2 + 4 v^2
  }
  SECTION("with an operation") {
    Tensor x = a * 1;
    x[0] *= v[1];
    sum(x).backward();
    CHECK(values(a.grad()) == V{7, 1, 1});
    CHECK(values(v.grad()) == V{0, 1});
  }
  SECTION("a number cuts the gradient off") {
    Tensor x = a * 2;
    x[{{0, 2}}] = 0.;
    sum(x).backward();
    CHECK(values(a.grad()) == V{0, 2, 0});
  }
  SECTION("not into a leaf, nor where others share the buffer") {
    Tensor leaf = a;
    CHECK_THROWS_WITH((leaf[{0}] = 1.), Contains("is a leaf that wants a gradient"));
    {
      const NoGrad no_grad;
      leaf[0] = 4.;
    }
    CHECK(values(a) == V{4, 2, 3});
    Tensor x = a * 2;
    const Tensor shared = x.reshape({3, 1});
    CHECK_THROWS_WITH((x[{0}] = 1.), Contains("shares its buffer"));
  }
  SECTION("what an adjoint needs can't be changed") {
    Tensor x = zeros({2}, float64);
    const Tensor y = sum(v * x);
    x[0] = 1.;
    CHECK_THROWS_WITH(y.backward(), Contains("changed in place"));
  }
}

TEST_CASE("many slices of one tensor add up their gradients", "[index]") {
  const Tensor x = arange(12).to(float64).reshape({3, 4}).requires_grad_();
  Tensor total = zeros({4}, float64);
  for (int i = 0; i < 3; ++i) total = total + x[i] * (i + 1) + x[{i, range(none, none, -1)}];
  sum(total * tensor({1., 2., 3., 4.}, float64)).backward();
  CHECK(values(x.grad()) == V{5, 5, 5, 5, 6, 7, 8, 9, 7, 9, 11, 13});
}

TEST_CASE("a write into integers takes floating values that are whole, and no others", "[index]") {
  Tensor a = tensor({1, 2, 3});
  a[0] = tensor(5.);
  a[{range(1)}] = tensor({7., 8.});
  CHECK(a.to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 7, 8});
  const auto lost = Contains("[index_put_] the tensor is int64, the value float32 with 2.7");
  CHECK_THROWS_WITH((a[0] = tensor(2.7)), lost);
  CHECK_THROWS_WITH((a[a > 6] = tensor({1., 2.7})), lost);
  CHECK_THROWS_AS((a[0] = tensor(std::nan(""))), Error);
  CHECK(a.to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 7, 8});
}

}  // namespace fit::test::index_test
