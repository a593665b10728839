#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Arithmetic, comparisons, logic and choices: values, types, broadcasting, and conversions.
namespace fit::test::elementwise_test {
namespace {

constexpr auto lowest = std::numeric_limits<std::int64_t>::min(), largest = std::numeric_limits<std::int64_t>::max();

using Numbers = std::vector<double>;
using Whole = std::vector<std::int64_t>;
using Truths = std::vector<bool>;

Numbers values(const Tensor& x) { return x.to(float64).to_vector<double>(); }
Truths truths(const Tensor& x) { return x.to_vector<bool>(); }

// z[i] = f(a, b) element by element, by counting indices: the definition of broadcasting.
template <class F>
Numbers plain(const Tensor& a, const Tensor& b, const Shape& out, const F& f) {
  const auto at = [&](const Tensor& x, std::int64_t i) {
    std::int64_t offset = 0, step = 1;
    for (int axis = 1; axis <= out.rank(); ++axis) {
      const std::int64_t k = i % out[-axis];
      i /= out[-axis];
      if (axis > x.rank()) continue;
      if (x.shape()[-axis] != 1) offset += k * step;
      step *= x.shape()[-axis];
    }
    return offset;
  };
  const Numbers x = values(a), y = values(b);
  Numbers z;
  for (std::int64_t i = 0; i < out.numel(); ++i)
    z.push_back(f(x[static_cast<std::size_t>(at(a, i))], y[static_cast<std::size_t>(at(b, i))]));
  return z;
}

}  // namespace

TEST_CASE("operands broadcast as in NumPy, on every instruction set", "[elementwise]") {
  struct Case {
    Shape a, b, out;
  };
  const std::vector<Case> cases = {
      {{}, {}, {}},
      {{7}, {7}, {7}},
      {{33}, {}, {33}},
      {{1}, {257}, {257}},
      {{3, 1}, {1, 7}, {3, 7}},
      {{2, 3, 33}, {3, 1}, {2, 3, 33}},
      {{2, 1, 3}, {4, 1}, {2, 4, 3}},
      {{5, 1, 1, 2}, {1, 3, 4, 1}, {5, 3, 4, 2}},
      {{0, 3}, {3}, {0, 3}},
      {{3, 0}, {1}, {3, 0}},
      {{3, 0}, {0}, {3, 0}},
      {{1, 3}, {0, 1}, {0, 3}},
      {{2, 20000}, {2, 1}, {2, 20000}},
      {{33000}, {33000}, {33000}},
      {{5, 8000}, {8000}, {5, 8000}},
      {{700, 3}, {3}, {700, 3}},
      {{700, 1}, {700, 3}, {700, 3}},
      {{3, 1, 60, 7}, {1, 5, 60, 1}, {3, 5, 60, 7}},
      {{64, 1, 3}, {1, 40, 1}, {64, 40, 3}},
      {{40, 1}, {2, 1, 63}, {2, 40, 63}},
  };
  test::each_isa([&] {
    for (const Case& c : cases)
      for (const DType t : {float32, float64, int64}) {
        INFO(c.a << " and " << c.b << " of " << t);
        std::mt19937_64 random(3);
        const Tensor a = (test::random_tensor(c.a, {-9, 9}, random) * 8).to(int64).to(t);
        const Tensor b = (test::random_tensor(c.b, {1, 9}, random) * 8).to(int64).to(t);
        CHECK(add(a, b).shape() == c.out);
        CHECK(values(a + b) == plain(a, b, c.out, std::plus<>()));
        CHECK(values(a - b) == plain(a, b, c.out, std::minus<>()));
        CHECK(values(a * b) == plain(a, b, c.out, std::multiplies<>()));
        CHECK(values(a > b) == plain(a, b, c.out, std::greater<>()));
        CHECK(values(a >= b) == plain(a, b, c.out, std::greater_equal<>()));
        CHECK(values(a < b) == plain(a, b, c.out, std::less<>()));
        CHECK(values(a <= b) == plain(a, b, c.out, std::less_equal<>()));
        CHECK(values(a == b) == plain(a, b, c.out, std::equal_to<>()));
        CHECK(values(a != b) == plain(a, b, c.out, std::not_equal_to<>()));
        CHECK(values(a > 1) == plain(a, ones({}), c.a, std::greater<>()));
        CHECK(values(clamp(a, -2, 3)) == values(minimum(maximum(a, full({}, -2, t)), full({}, 3, t))));
        CHECK(values(masked_fill(a, a > 1, 5)) == values(where(a <= 1, a, 5)));
        CHECK(values(where(a > 1, 5, a)) == plain(a, ones({}), c.a, [](double x, double y) { return x > y ? 5 : x; }));
        CHECK(values(maximum(a, b)) == plain(a, b, c.out, [](double x, double y) { return std::max(x, y); }));
        CHECK(values(minimum(a, b)) == plain(a, b, c.out, [](double x, double y) { return std::min(x, y); }));
        CHECK(values(where(a > b, a, b)) == values(maximum(a, b)));
        if (t == float64) CHECK(values(a / b) == plain(a, b, c.out, std::divides<>()));
      }
  });
}

TEST_CASE("types promote boolean < int64 < float32 < float64", "[elementwise]") {
  const DType types[] = {boolean, int64, float32, float64};
  for (const DType a : types)
    for (const DType b : types) {
      INFO(a << " and " << b);
      const DType wider = promote(a, b), number = wider == boolean ? int64 : wider;
      const DType quotient = is_floating(wider) ? wider : float32;
      const Tensor x = ones({2}, a), y = ones({2}, b);
      CHECK((x + y).dtype() == number);
      CHECK((x - y).dtype() == number);
      CHECK((x * y).dtype() == number);
      CHECK((x / y).dtype() == quotient);
      CHECK(pow(x, y).dtype() == number);
      CHECK(maximum(x, y).dtype() == wider);
      CHECK(where(ones({2}, boolean), x, y).dtype() == wider);
      CHECK((x == y).dtype() == boolean);
      CHECK(values(x + y) == Numbers{2, 2});
    }
}

TEST_CASE("a C++ number never promotes a tensor", "[elementwise]") {
  const Tensor half = ones({2}), whole = ones({2}, int64), truth = ones({2}, boolean);
  CHECK((half * 2.5).dtype() == float32);
  CHECK((half + 1).dtype() == float32);
  CHECK((whole * 2.0).dtype() == int64);
  CHECK((whole / 2).dtype() == float32);
  CHECK((truth + 1).dtype() == int64);
  CHECK((-truth).dtype() == int64);
  CHECK((1 / whole).dtype() == float32);
  CHECK(where(truth, half, 2.5).dtype() == float32);
  CHECK_THROWS_WITH(whole + 0.5, Catch::Contains("[add] the number 0.5 is not whole"));
  CHECK_THROWS_WITH(truth * 0.5, Catch::Contains("[mul] the number 0.5 is not whole"));
  CHECK_THROWS_WITH(masked_fill(whole, truth, 0.5), Catch::Contains("[masked_fill] the number 0.5 is not whole"));
  CHECK_THROWS_WITH(clamp(whole, 0.5, 2), Catch::Contains("[clamp] the number 0.5 is not whole"));
}

TEST_CASE("integers compare with any number, exactly", "[elementwise]") {
  const std::int64_t large = (std::int64_t{1} << 62) + 1;
  const std::vector<std::int64_t> all{INT64_MIN, -3, -2, 0, 2, 3, large, INT64_MAX};
  const Tensor x = tensor(all, {8});
  for (const double v :
       {-2.5, 2.5, 0.5, -0.5, 1e-300, double(INFINITY), -double(INFINITY), double(NAN), 0x1p63, -0x1p64}) {
    INFO(v);
    const auto expect = [&](const Tensor& found, const auto& holds) {
      for (std::int64_t i = 0; i < 8; ++i) CHECK(found[i].item<bool>() == holds(static_cast<long double>(all[i])));
    };
    expect(x < v, [=](long double a) { return a < v; });
    expect(x <= v, [=](long double a) { return a <= v; });
    expect(x > v, [=](long double a) { return a > v; });
    expect(x >= v, [=](long double a) { return a >= v; });
    expect(x == v, [=](long double a) { return a == v; });
    expect(x != v, [=](long double a) { return a != v; });
    expect(v < x, [=](long double a) { return v < a; });
  }
  CHECK(equal(tensor({true, false}) > 0.5, tensor({true, false})));
  CHECK((zeros({0, 2}, int64) < 0.5).shape() == Shape{0, 2});
}

TEST_CASE("arithmetic with numbers", "[elementwise]") {
  const Tensor x = tensor({1., 2., -4.});
  CHECK(values(x + 1) == Numbers{2, 3, -3});
  CHECK(values(1 + x) == Numbers{2, 3, -3});
  CHECK(values(x - 1) == Numbers{0, 1, -5});
  CHECK(values(1 - x) == Numbers{0, -1, 5});
  CHECK(values(3 * x) == Numbers{3, 6, -12});
  CHECK(values(x / 4) == Numbers{0.25, 0.5, -1});
  CHECK(values(4 / x) == Numbers{4, 2, -1});
  CHECK(values(x / 0) == Numbers{inf, inf, -inf});
  CHECK(values(true * tensor({3, 4})) == Numbers{3, 4});
}

TEST_CASE("int64 wraps round, and knows no other accident", "[elementwise]") {
  const Tensor edges = tensor(Whole{lowest, largest}, {2});
  CHECK((edges + 1).to_vector<std::int64_t>() == Whole{lowest + 1, lowest});
  CHECK((edges - 1).to_vector<std::int64_t>() == Whole{largest, largest - 1});
  CHECK((edges * 2).to_vector<std::int64_t>() == Whole{0, -2});
  CHECK((-edges).to_vector<std::int64_t>() == Whole{lowest, -largest});
  CHECK(abs(edges).to_vector<std::int64_t>() == Whole{lowest, largest});
}

TEST_CASE("comparisons and logic", "[elementwise]") {
  const Tensor x = tensor({1., 2., nan}), y = tensor({2., 2., nan});
  CHECK(truths(x == y) == Truths{false, true, false});
  CHECK(truths(x != y) == Truths{true, false, true});
  CHECK(truths(x < y) == Truths{true, false, false});
  CHECK(truths(x <= y) == Truths{true, true, false});
  CHECK(truths(x > y) == Truths{false, false, false});
  CHECK(truths(x >= y) == Truths{false, true, false});
  CHECK(truths(x < 2) == Truths{true, false, false});
  CHECK(truths(tensor({1, 2, 3}) >= 2) == Truths{false, true, true});
  CHECK(truths(tensor({true, false}) == 1) == Truths{true, false});
  CHECK(truths(tensor({true, false}) == 2) == Truths{false, false});
  const Tensor a = tensor({true, true, false, false}), b = tensor({1., 0., -2., 0.});
  CHECK(truths(a && b) == Truths{true, false, false, false});
  CHECK(truths(a || b) == Truths{true, true, true, false});
  CHECK(truths(logical_xor(a, b)) == Truths{false, true, true, false});
  CHECK(truths(!b) == Truths{false, true, false, true});
  CHECK(truths(!tensor({nan})) == Truths{false});
  const Tensor odd = tensor({1., inf, -inf, nan});
  CHECK(truths(isnan(odd)) == Truths{false, false, false, true});
  CHECK(truths(isfinite(odd)) == Truths{true, false, false, false});
  CHECK(truths(isfinite(tensor({3}))) == Truths{true});
  CHECK_THROWS_WITH(zeros({2}) == zeros({3}), Catch::Contains("[eq] shapes [2] and [3] do not broadcast"));
  CHECK_THROWS_WITH(logical_or(zeros({2}), zeros({3})), Catch::Contains("[logical_or] shapes [2] and [3]"));
  CHECK_FALSE((x.clone().requires_grad_() < y).requires_grad());
}

TEST_CASE("verdicts on whole tensors", "[elementwise]") {
  const Tensor x = tensor({1., 2.});
  CHECK(equal(x, tensor({1., 2.})));
  CHECK_FALSE(equal(x, tensor({1., 3.})));
  CHECK_FALSE(equal(x, tensor({{1., 2.}})));
  CHECK_FALSE(equal(x, x.to(float64)));
  CHECK_FALSE(equal(tensor({nan}), tensor({nan})));
  CHECK(allclose(x, x + 1e-6));
  CHECK(allclose(x, x.to(float64)));
  CHECK_FALSE(allclose(x, x + 1e-3));
  CHECK(allclose(x, x + 1e-3, 0, 1e-2));
  CHECK_FALSE(allclose(x, tensor({{1., 2.}})));
  CHECK_FALSE(allclose(tensor({nan}), tensor({nan})));
  CHECK(allclose(tensor({inf}), tensor({inf})));
  CHECK_FALSE(allclose(tensor({1.}), tensor({inf})));
  CHECK_FALSE(allclose(tensor({inf}), tensor({1.})));
  CHECK_FALSE(allclose(tensor({inf}), tensor({-inf})));
}

TEST_CASE("choices", "[elementwise]") {
  CHECK(values(clamp(tensor({-2., 0.5, 3.}), -1, 1)) == Numbers{-1, 0.5, 1});
  CHECK(values(clamp(tensor({-2, 5}), -inf, 3)) == Numbers{-2, 3});
  CHECK(std::isnan(clamp(tensor({nan}), -1, 1).item()));
  test::each_isa([] {
    for (const DType t : {float32, float64})
      for (const Tensor& z : {maximum(tensor({nan, 1., nan}, t), tensor({1., nan, nan}, t)),
                              minimum(tensor({nan, 1., nan}, t), tensor({1., nan, nan}, t))})
        CHECK(truths(isnan(z)) == Truths{true, true, true});
  });
  CHECK(values(maximum(tensor({true, false}), tensor({false, false}))) == Numbers{1, 0});
  const Tensor mask = tensor({true, false});
  CHECK(values(where(mask, tensor({1, 2}), tensor({{3.}, {4.}}))) == Numbers{1, 3, 1, 4});
  CHECK(values(where(mask, 7, tensor({1, 2}))) == Numbers{7, 2});
  CHECK(values(where(tensor({{true}, {false}}), tensor({1., 2., 3.}), 0)) == Numbers{1, 2, 3, 0, 0, 0});
  CHECK(values(masked_fill(tensor({{1., 2.}, {3., 4.}}), mask, -inf)) == Numbers{-inf, 2, -inf, 4});
  CHECK(values(masked_fill(tensor({true, true}), mask, false)) == Numbers{0, 1});
}

TEST_CASE("a NaN in the branch not taken stays out of the gradient", "[elementwise]") {
  const Tensor x = tensor({-1., 4.}).requires_grad_();
  sum(where(x > 0, sqrt(x), x * 3)).backward();
  CHECK(values(x.grad())[1] == 0.25);
  const Tensor z = tensor({nan, 4.}).requires_grad_(), scale = tensor({1., 2.}).requires_grad_();
  sum(masked_fill(z, isnan(z), 0) * scale).backward();
  CHECK(values(z.grad()) == Numbers{0, 2});
  CHECK(values(scale.grad()) == Numbers{0, 4});
}

TEST_CASE("conversions have a defined result for every number", "[elementwise]") {
  const Tensor x = tensor({1.9, -1.9, 1e30, -1e30, inf, -inf, nan, -0.}, float64);
  const Whole whole = {1, -1, largest, lowest, largest, lowest, 0, 0};
  CHECK(x.to(int64).to_vector<std::int64_t>() == whole);
  CHECK(x.to(float32).to(int64).to_vector<std::int64_t>() == whole);
  CHECK(truths(x.to(boolean)) == Truths{true, true, true, true, true, true, true, false});
  CHECK(truths(tensor({2, 0}).to(boolean)) == Truths{true, false});
  CHECK(values(tensor({true, false}).to(float32)) == Numbers{1, 0});
  CHECK(tensor({3.}).item<std::int64_t>() == 3);
  CHECK_THROWS_WITH(tensor({2.7}).item<std::int64_t>(),
                    Catch::Contains("[item] the number 2.7") && Catch::Contains("is not whole"));
  CHECK_THROWS_WITH(tensor({0.5}).item<bool>(),
                    Catch::Contains("[item] the number 0.5 is not whole: ask for item<double>()"));
  CHECK_THROWS_AS(tensor({nan}).item<std::int64_t>(), Error);
  CHECK_THROWS_AS(tensor({inf}).item<std::int64_t>(), Error);
  CHECK(values(arange(100001).to(float32).to(boolean).to(int64)).back() == 1);
}

TEST_CASE("item() refuses numbers beyond the type asked for", "[elementwise]") {
  CHECK(tensor({-128.}).item<std::int8_t>() == -128);
  CHECK(tensor({127}).item<std::int8_t>() == 127);
  CHECK(tensor({INT32_MIN}).item<int>() == INT32_MIN);
  CHECK(full({}, INT64_MAX, int64).item<std::int64_t>() == INT64_MAX);
  CHECK(full({}, INT64_MIN, int64).item<std::int64_t>() == INT64_MIN);
  CHECK(full({}, INT64_MAX, int64).item<std::uint64_t>() == INT64_MAX);
  CHECK(tensor({1.}).item<bool>());
  CHECK_THROWS_WITH(tensor({1ll << 40}).item<int>(),
                    "[item] the number 1099511627776 does not fit the type asked for: it must be in -2147483648 … "
                    "2147483647; item<std::int64_t>() or item<double>() holds it");
  const auto beyond = Catch::Contains("does not fit the type asked for: it must be in ");
  CHECK_THROWS_WITH(tensor({128}).item<std::int8_t>(), beyond && Catch::Contains("-128 … 127"));
  CHECK_THROWS_WITH(tensor({-129}).item<std::int8_t>(), beyond);
  CHECK_THROWS_WITH(tensor({-1.}).item<std::uint8_t>(), beyond && Catch::Contains("0 … 255"));
  CHECK_THROWS_WITH(tensor({-1}).item<std::uint64_t>(), beyond && Catch::Contains("0 … 9223372036854775807"));
  CHECK_THROWS_WITH(tensor({2}).item<bool>(), beyond && Catch::Contains("0 … 1"));
}

}  // namespace fit::test::elementwise_test
