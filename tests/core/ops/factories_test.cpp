#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Tensors from nested braces, vectors and rules.
namespace fit::test::factories_test {

using Catch::Matchers::Contains;

TEST_CASE("braces: the type follows the numbers", "[factories]") {
  CHECK(tensor({{1., 2.}, {3., 4.}}).dtype() == float32);
  CHECK(tensor({1.f, 2.f}).dtype() == float32);
  CHECK(tensor({{1, 2}, {3, 4}}).dtype() == int64);
  CHECK(tensor({true, false}).dtype() == boolean);
  CHECK(tensor({true, 2}).dtype() == int64);
  CHECK(tensor({{true, 2}, {3, .5}}).dtype() == float32);
  CHECK(tensor({{true, 2}, {3, .5}}).to_vector<float>() == std::vector<float>{1, 2, 3, .5f});
  CHECK(tensor({1, 2}, float64).to_vector<double>() == std::vector<double>{1, 2});
  CHECK(tensor({0, 2}, boolean).to_vector<bool>() == std::vector<bool>{false, true});
  CHECK(tensor({INT64_MAX, INT64_MIN}).to_vector<std::int64_t>() == std::vector<std::int64_t>{INT64_MAX, INT64_MIN});
}

TEST_CASE("braces: every pair is an axis", "[factories]") {
  CHECK(tensor(5.).shape() == Shape{});
  CHECK(tensor({5.}).shape() == Shape{1});
  CHECK(tensor({{5.}}).shape() == Shape{1, 1});
  CHECK(tensor({{{5.}}}).shape() == Shape{1, 1, 1});
  CHECK(tensor({{1, 2, 3}, {4, 5, 6}}).shape() == Shape{2, 3});
  CHECK(tensor({{{1, 2, 3}}, {{4, 5, 6}}}).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(tensor({}).shape() == Shape{0});
  CHECK(tensor({}).dtype() == float32);
  CHECK(tensor({{}, {}}).shape() == Shape{2, 0});
}

TEST_CASE("braces: ragged rows and fractions among whole numbers are errors", "[factories]") {
  const auto ragged = [] { tensor({{1, 2}, {3, 4}, {5}}); };
  CHECK_THROWS_WITH(ragged(), Contains("[tensor] the entry at [2] is a list of 1") && Contains("list of 2"));
  const auto deep = [] { tensor({{{1}, {2}}, {{3}, {}}}); };
  CHECK_THROWS_WITH(deep(), Contains("the entry at [1][1] is a list of 0"));
  const auto number = [] { tensor({{1, 2}, 3}); };
  CHECK_THROWS_WITH(number(), Contains("the entry at [1] is a number, the first of its level is a list of 2"));
  const auto list = [] { tensor({1, {2, 3}}); };
  CHECK_THROWS_WITH(list(), Contains("the entry at [1] is a list of 2, the first of its level is a number"));
  const auto fraction = [] { tensor({1., 1.5}, int64); };
  CHECK_THROWS_WITH(fraction(), Contains("[tensor] the number 1.5 is not whole"));
}

TEST_CASE("vectors keep their type", "[factories]") {
  const Tensor x = tensor(std::vector<double>{1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(x.dtype() == float64);
  CHECK(x.shape() == Shape{2, 3});
  CHECK(tensor(std::vector<float>{1}, {}).dtype() == float32);
  CHECK(tensor(std::vector<std::int64_t>{}, {0}).dtype() == int64);
  CHECK(tensor(std::vector<bool>{true, false}, {2}).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK_THROWS_WITH(tensor(std::vector<float>{1, 2}, {3}), Contains("the vector has 2 values, shape [3] has 3"));

  const Tensor one_axis = tensor(std::vector<double>{1, 2, 3});
  CHECK(one_axis.dtype() == float64);
  CHECK(one_axis.shape() == Shape{3});
  CHECK(tensor(std::vector<int>{4, 5}).to_vector<std::int64_t>() == std::vector<std::int64_t>{4, 5});
  CHECK(tensor(std::vector<std::uint8_t>{200}).dtype() == int64);
  CHECK(tensor(std::vector<bool>{true, false}).dtype() == boolean);
  CHECK(tensor(std::vector<float>{}).shape() == Shape{0});
}

TEST_CASE("zeros, ones, full", "[factories]") {
  for (const DType t : {boolean, int64, float32, float64}) {
    INFO(t);
    CHECK(zeros({2, 3}, t).dtype() == t);
    CHECK(values(zeros({2, 2}, t)) == std::vector<double>{0, 0, 0, 0});
    CHECK(values(ones({3}, t)) == std::vector<double>{1, 1, 1});
    CHECK(zeros({0, 3}, t).numel() == 0);
    CHECK(same_bits(ones_like(zeros({2}, t)), ones({2}, t)));
    CHECK(same_bits(zeros_like(ones({2}, t)), zeros({2}, t)));
  }
  CHECK(full({}, -2.5).item() == -2.5);
  CHECK(values(full({2}, -7, int64)) == std::vector<double>{-7, -7});
  CHECK(values(full({2}, 3, boolean)) == std::vector<double>{1, 1});
  CHECK_THROWS_WITH(full({2}, 0.5, int64), Contains("[full] the number 0.5 is not whole"));
  CHECK_THROWS_WITH(full({2}, NAN, boolean), Contains("[full]"));
  // Large enough for several threads: every element is written.
  const Tensor large = full({300001}, 1.5);
  CHECK(std::count(large.data<float>().begin(), large.data<float>().end(), 1.5f) == 300001);
  CHECK(sum(zeros({300001})).item() == 0);
}

TEST_CASE("arange and linspace", "[factories]") {
  CHECK(arange(4).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(arange(0).shape() == Shape{0});
  CHECK_THROWS_WITH(arange(-1), Contains("[arange] n is -1"));
  CHECK(arange(2.5).to_vector<float>() == std::vector<float>{0, 1, 2});  // as PyTorch
  CHECK(arange(3.F).to_vector<float>() == std::vector<float>{0, 1, 2});
  CHECK(arange(0, 1, 0.25).to_vector<float>() == std::vector<float>{0, .25f, .5f, .75f});
  CHECK(arange(5, 0, -2, int64).to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 3, 1});
  CHECK(arange(3, 1, 1).numel() == 0);
  CHECK(equal(arange(0, 10, 4), tensor({0, 4, 8})));
  CHECK(arange(0, 10, 4.).dtype() == float32);
  CHECK(arange(0, 0.3, 0.1, float64).numel() == 3);
  CHECK_THROWS_WITH(arange(0, 1, 0), Contains("step 0"));
  CHECK_THROWS_WITH(arange(0, INFINITY, 1), Contains("finite"));
  CHECK_THROWS_WITH(arange(0, 2, 0.5, int64), Contains("the number 0.5 is not whole"));
  CHECK_THROWS_WITH(arange(0, 2, 1, boolean), Contains("dtype is boolean"));

  CHECK(linspace(0, 1, 5).to_vector<float>() == std::vector<float>{0, .25f, .5f, .75f, 1});
  CHECK(linspace(2, -2, 3).to_vector<float>() == std::vector<float>{2, 0, -2});
  CHECK(linspace(3, 9, 1).to_vector<float>() == std::vector<float>{3});
  CHECK(linspace(3, 9, 0).numel() == 0);
  CHECK(linspace(0, 0.7, 8, float64).to_vector<double>().back() == 0.7);  // exactly
  CHECK_THROWS_WITH(linspace(0, 1, -1), Contains("count is -1"));
  CHECK_THROWS_WITH(linspace(0, 1, 2, int64), Contains("dtype is int64"));
}

TEST_CASE("eye and one_hot", "[factories]") {
  CHECK(values(eye(2)) == std::vector<double>{1, 0, 0, 1});
  CHECK(values(eye(2, 3, int64)) == std::vector<double>{1, 0, 0, 0, 1, 0});
  CHECK(values(eye(3, 1, boolean)) == std::vector<double>{1, 0, 0});
  CHECK(eye(0).shape() == Shape{0, 0});
  CHECK(values(eye(2, float64)) == std::vector<double>{1, 0, 0, 1});
  CHECK(eye(2, float64).dtype() == float64);
  CHECK(eye(2, boolean).dtype() == boolean);
  CHECK_THROWS_AS(eye(-2), Error);

  const Tensor h = one_hot(tensor({{2, 0}, {1, 1}}), 3);
  CHECK(h.shape() == Shape{2, 2, 3});
  CHECK(values(h) == std::vector<double>{0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0});
  CHECK(values(one_hot(tensor(1), 2, int64)) == std::vector<double>{0, 1});
  CHECK(one_hot(arange(0), 2).shape() == Shape{0, 2});
  CHECK(one_hot(arange(0), 0).shape() == Shape{0, 0});
  CHECK_THROWS_WITH(one_hot(arange(3), 2), Contains("position 2 of ids [3] is 2: it must be in 0 … 1"));
  CHECK_THROWS_WITH(one_hot(zeros({2}), 2), Contains("ids is float32: it must be int64"));
}

TEST_CASE("whole numbers that int64 can't hold are errors", "[factories]") {
  const std::string rule = "does not fit int64: it must be in -2^63 … 2^63 - 1";
  CHECK_THROWS_WITH(full({2}, UINT64_MAX, int64), Contains("[full] the number 1.84467e+19 " + rule));
  CHECK_THROWS_WITH(tensor({UINT64_MAX}), Contains("[tensor]") && Contains(rule));
  CHECK_THROWS_WITH(arange(3) + UINT64_MAX, Contains("[add]") && Contains(rule));
  CHECK_THROWS_WITH(full({2}, 0x1p63, int64), Contains(rule));
  CHECK_THROWS_WITH(full({2}, -INFINITY, int64), Contains(rule));
  CHECK_THROWS_WITH(arange(9e18, 1e19, 5e17, int64), Contains("[arange]") && Contains(rule));
  CHECK(full({}, UINT64_MAX).item() == 0x1p64f);
  CHECK(full({}, INT64_MAX, int64).item<std::int64_t>() == INT64_MAX);
  CHECK(full({}, -0x1p63, int64).item<std::int64_t>() == INT64_MIN);
  CHECK(full({}, 1e18, int64).item<std::int64_t>() == 1000000000000000000);
}

TEST_CASE("linspace reaches both ends without overflow, symmetrically", "[factories]") {
  CHECK(values(linspace(-1e308, 1e308, 5, float64)) == std::vector<double>{-1e308, -5e307, 0, 5e307, 1e308});
  CHECK_THROWS_WITH(linspace(-1e308, 1e308, 5),
                    Contains("[linspace] start is -1e+308, stop 1e+308") && Contains("both must be finite in float32"));
  CHECK_THROWS_WITH(linspace(0, INFINITY, 3, float64), Contains("must be finite"));
  const Tensor x = linspace(-0.7, 0.7, 24, float64);
  CHECK(same_bits(x, neg(flip(x, {0}))));
}

}  // namespace fit::test::factories_test
