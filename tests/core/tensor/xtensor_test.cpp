#include "fit/tensor/xtensor.hpp"

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// xtensor expressions to tensors, and tensors as xtensor containers.
namespace fit::test::xtensor_test {
namespace {

using Catch::Matchers::Contains;
using V = std::vector<double>;

}  // namespace

TEST_CASE("from_xtensor: containers, expressions, views, broadcasts", "[xtensor]") {
  const xt::xarray<double> a{{1, 2, 3}, {4, 5, 6}};
  CHECK(same_bits(from_xtensor(a), tensor({{1., 2., 3.}, {4., 5., 6.}}, float64)));
  CHECK(values(from_xtensor(a * 2 + 1)) == V{3, 5, 7, 9, 11, 13});
  CHECK(values(from_xtensor(xt::view(a, 1, xt::range(0, 3, 2)))) == V{4, 6});
  CHECK(values(from_xtensor(xt::transpose(a))) == V{1, 4, 2, 5, 3, 6});
  const xt::xarray<float> row{10, 20, 30};
  CHECK(from_xtensor(row).dtype() == float32);
  CHECK(values(from_xtensor(a + row)) == V{11, 22, 33, 14, 25, 36});
  CHECK(from_xtensor(xt::broadcast(row, {2, 3})).shape() == Shape{2, 3});
  const xt::xtensor_fixed<float, xt::xshape<2, 2>> fixed{{1, 2}, {3, 4}};
  CHECK(values(from_xtensor(fixed)) == V{1, 2, 3, 4});
  const xt::xarray<double, xt::layout_type::column_major> columns{{1, 2, 3}, {4, 5, 6}};
  CHECK(values(from_xtensor(columns)) == V{1, 2, 3, 4, 5, 6});
  CHECK(values(from_xtensor(xt::sum(a, {0}))) == V{5, 7, 9});
}

TEST_CASE("from_xtensor: rank 0, nothing, and all types", "[xtensor]") {
  CHECK(from_xtensor(xt::xarray<double>(2.5)).shape() == Shape{});
  CHECK(from_xtensor(xt::xarray<double>(2.5)).item() == 2.5);
  CHECK(from_xtensor(xt::xarray<float>::from_shape({0, 3})).shape() == Shape{0, 3});
  const xt::xarray<int> i{-1, 2};
  CHECK(same_bits(from_xtensor(i), tensor({-1, 2})));
  CHECK(same_bits(from_xtensor(xt::xarray<std::uint8_t>{200, 2}), tensor({200, 2})));
  CHECK(same_bits(from_xtensor(xt::xarray<std::int64_t>{INT64_MIN}), tensor({INT64_MIN})));
  CHECK(same_bits(from_xtensor(i > 0), tensor({false, true})));
  CHECK(same_bits(from_xtensor(xt::xarray<std::uint64_t>{7}), tensor({7})));
  CHECK_THROWS_WITH(from_xtensor(xt::xarray<std::uint64_t>{1ull << 63}), Contains("does not fit int64"));
}

TEST_CASE("as_xtensor reads the live buffer", "[xtensor]") {
  Tensor x = tensor({{1., 2., 3.}, {4., 5., 6.}});
  const auto a = as_xtensor<float>(x);
  CHECK(a.dimension() == 2);
  CHECK(a(1, 2) == 6);
  CHECK(a.data() == x.raw());
  x[{1, 2}] = 60;
  CHECK(a(1, 2) == 60);
  CHECK(values(from_xtensor(xt::sum(a, {0}))) == V{5, 7, 63});
  CHECK(values(from_xtensor(xt::view(a, xt::all(), 1) * 2)) == V{4, 10});
  CHECK(as_xtensor<double>(tensor(3., float64))() == 3);
  CHECK(as_xtensor<bool>(tensor({true, false}))(0));
  CHECK(as_xtensor<float>(zeros({0, 2})).size() == 0);
  STATIC_REQUIRE_FALSE(std::is_assignable_v<decltype(as_xtensor<float>(x)(0)), float>);
  CHECK_THROWS_WITH(as_xtensor<double>(x), Contains("the tensor is float32, float64 was asked for"));
}

TEST_CASE("edit_xtensor writes into the live buffer and counts", "[xtensor]") {
  Tensor x = zeros({2, 3});
  const auto version = x.version();
  edit_xtensor<float>(x) = xt::arange<float>(6).reshape({2, 3}) + 1;
  CHECK(values(x) == V{1, 2, 3, 4, 5, 6});
  CHECK(x.version() == version + 1);
  edit_xtensor<float>(x) *= 2;
  auto e = edit_xtensor<float>(x);
  xt::view(e, 0, xt::all()) = xt::xarray<float>{-1, -2, -3};
  e(1, 0) = 100;
  CHECK(values(x) == V{-1, -2, -3, 100, 10, 12});
  const xt::xarray<float> column = xt::arange<float>(1, 3).reshape({2, 1});
  e = e + column;  // reads what it writes
  CHECK(values(x) == V{0, -1, -2, 102, 12, 14});
  CHECK(e.data() == x.raw());
  const xt::xarray<float> other{1, 2}, larger = xt::ones<float>({2, 2, 3});
  const auto told =
      "[edit_xtensor] the tensor has shape [2, 3] with 6 elements, the expression has 2: their shapes "
      "must be equal";
  CHECK_THROWS_WITH(edit_xtensor<float>(x) = other, told);
  CHECK_THROWS_WITH(xt::noalias(e) = other, told);
  CHECK_THROWS_WITH(edit_xtensor<float>(x) += larger, Contains("with 6 elements, the expression has 12"));
  CHECK_THROWS_AS(edit_xtensor<float>(x) = other, Error);
  CHECK(values(x) == V{0, -1, -2, 102, 12, 14});
  Tensor scalar = tensor(1.);
  edit_xtensor<float>(scalar)() = 7;
  CHECK(scalar.item() == 7);
}

TEST_CASE("edit_xtensor keeps the rules of changes in place", "[xtensor]") {
  Tensor leaf = ones({2}).requires_grad_();
  CHECK_THROWS_WITH(edit_xtensor<float>(leaf), Contains("leaf that wants a gradient"));
  Tensor w = ones({2});
  const Tensor y = sum(leaf * w);
  edit_xtensor<float>(w) += 1;
  CHECK_THROWS_WITH(y.backward(), Contains("changed in place"));
}

TEST_CASE("what adaptors show outlives the tensor", "[xtensor]") {
  const auto a = as_xtensor<float>(full({1000}, 3));
  const Tensor other = full({1000}, 4);  // would take a freed buffer's place
  CHECK(xt::sum(a)() == 3000);
  auto e = [] {
    Tensor x = zeros({1000});
    return edit_xtensor<float>(x);
  }();
  const Tensor another = full({1000}, 5);
  e += 1;
  CHECK(xt::sum(e)() == 1000);
  CHECK(values(another[0]) == V{5});
}

}  // namespace fit::test::xtensor_test
