// Vector loops of bfloat16, conversions and integer sums against scalar formulas; repeat and pad against single
// elements.
#include <cmath>
#include <limits>
#include <vector>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "tensor/convert.hpp"

namespace fit::test::narrow_and_converted_test {
namespace {

std::vector<double> special_numbers(std::int64_t n) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values{std::nan(""),
                                   inf,
                                   -inf,
                                   -0.0,
                                   0,
                                   1e300,
                                   1e-310,
                                   -1e-40,
                                   0x1p63,
                                   -0x1p63,
                                   -9.5,
                                   0x1.01p0,
                                   0x1.03p0,
                                   0x1.0100000001p0,
                                   0x1.00ffffffffffp0,
                                   9007199254740993.,
                                   0.3};
  std::vector<double> all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(values[static_cast<std::size_t>(i) % values.size()]);
  return all;
}

template <class To>
void check_converted(const Tensor& x, DType t) {
  const Tensor y = x.to(t);
  const auto from = x.data<double>();
  const auto to = y.data<To>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const To expected = convert<To>(from[i]);
    if (std::isnan(from[i]) && is_floating(t))
      CHECK(std::isnan(static_cast<double>(to[i])));
    else
      CHECK(to[i] == expected);
  }
}

}  // namespace

TEST_CASE("conversions by vectors give the elements of convert()") {
  for (const std::int64_t n : {0, 1, 7, 33, 100}) {
    const Tensor x = tensor(special_numbers(n), {n});
    check_converted<float>(x, float32);
    check_converted<BFloat16>(x, bfloat16);
    check_converted<std::int64_t>(x, int64);
    check_converted<bool>(x, boolean);
  }
  const std::int64_t beyond = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1;  // a tie, but for the last bit
  const Tensor rounded = full({3}, beyond, int64).to(bfloat16);
  CHECK(rounded.data<BFloat16>()[2] == BFloat16(beyond));
}

TEST_CASE("functions of bfloat16 are those of float32, rounded once") {
  for (const std::int64_t n : {0, 1, 31, 32, 33, 65}) {
    const Tensor x = tensor(special_numbers(n), {n}).to(bfloat16);
    for (const auto f : {+[](const Tensor& v) { return abs(v); }, +[](const Tensor& v) { return tanh(v); },
                         +[](const Tensor& v) { return sqrt(v); }, +[](const Tensor& v) { return round(v); }}) {
      const Tensor y = f(x).to(float32), expected = f(x.to(float32)).to(bfloat16).to(float32);
      for (std::int64_t i = 0; i < n; ++i) {
        const float a = y.data<float>()[i], b = expected.data<float>()[i];
        CHECK((a == b || (std::isnan(a) && std::isnan(b))));
        CHECK((std::isnan(a) || std::signbit(a) == std::signbit(b)));
      }
    }
  }
}

TEST_CASE("sums of integers wrap around") {
  const Tensor x = full({41}, std::numeric_limits<std::int64_t>::max(), int64);
  CHECK(sum(x).item<std::int64_t>() == std::numeric_limits<std::int64_t>::max() - 40);
  CHECK(sum(ones({301}, boolean)).item<std::int64_t>() == 301);
}

TEST_CASE("pad takes and adds in one pass; repeat takes all axes of a shape") {
  const Tensor x = arange(6).reshape({2, 3});
  CHECK(equal(pad(x, {-1, 1, 1, 0}, PadMode::constant, 9), tensor({9, 9, 9, 1, 2, 9, 4, 5, 9}).reshape({3, 3})));
  const Tensor all = repeat(arange(2).reshape({2, 1, 1, 1, 1, 1, 1, 1}), {2, 2, 2, 2, 2, 2, 2, 2});
  CHECK(all.numel() == 512);
  CHECK(sum(all).item<std::int64_t>() == 256);
  const Tensor pairs = repeat(x.reshape({1, 2, 1, 3, 1, 1, 1, 1}), {1, 2, 1, 2, 1, 1, 1, 2});
  CHECK(equal(pairs.reshape({4, 6, 2}),
              stack({cat({cat({x, x}, 1), cat({x, x}, 1)}, 0), cat({cat({x, x}, 1), cat({x, x}, 1)}, 0)}, 2)));
}

}  // namespace fit::test::narrow_and_converted_test
