#include <cmath>
#include <limits>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Steps, remainders, orders and counts by value. The numbers are PyTorch's and NumPy's.
namespace fit::test::statistics_test {
namespace {

using V = std::vector<double>;

}  // namespace

TEST_CASE("steps round as NumPy does and leave whole numbers alone", "[statistics]") {
  const Tensor x = tensor({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.7});
  CHECK(values(round(x)) == V{-2, -2, 0, 0, 2, 2, 3});
  CHECK(values(floor(x)) == V{-3, -2, -1, 0, 1, 2, 2});
  CHECK(values(ceil(x)) == V{-2, -1, 0, 1, 2, 3, 3});
  CHECK(values(trunc(x)) == V{-2, -1, 0, 0, 1, 2, 2});
  CHECK(values(sign(tensor({-3., 0., 2.}))) == V{-1, 0, 1});
  CHECK(std::isnan(sign(tensor({nan})).item()));
  const Tensor whole = tensor({-7, 0, 7});
  CHECK((floor(whole).dtype() == int64 && equal(round(whole), whole) && equal(trunc(whole), whole)));
  CHECK(equal(sign(whole), tensor({-1, 0, 1})));
}

TEST_CASE("a remainder has the sign of what it is divided by", "[statistics]") {
  CHECK(values(tensor({-7, 7, -7, 7}) % tensor({3, -3, -3, 3})) == V{2, -2, -1, 1});
  CHECK(values(tensor({-7., 7., -7., 7., 5.5}) % tensor({3., -3., -3., 3., inf})) == V{2, -2, -1, 1, 5.5});
  CHECK(values(tensor({-1, 5}) % 4) == V{3, 1});
  CHECK(values(7 % tensor({4., -4.})) == V{3, -1});
  CHECK((tensor({5}) % 3).dtype() == int64);
  CHECK(std::isnan((tensor({5.}) % 0).item()));
  CHECK((tensor({INT64_MIN}, int64) % -1).item<std::int64_t>() == 0);
}

TEST_CASE("the derivative by an infinite divisor is the floor of the quotient, with a minus", "[statistics]") {
  Tensor b = tensor({inf, -inf, inf, -inf}).requires_grad_();
  sum(remainder(tensor({3., 3., -3., -3.}), b)).backward();
  CHECK(values(b.grad()) == V{0, 1, 1, 0});
}

TEST_CASE("infinities and NaN are told and replaced", "[statistics]") {
  const Tensor x = tensor({nan, inf, -inf, 2.});
  CHECK(values(isinf(x)) == V{0, 1, 1, 0});
  CHECK(values(isinf(tensor({1, 2}))) == V{0, 0});
  const double most = std::numeric_limits<float>::max();
  CHECK(values(nan_to_num(x)) == V{0, most, -most, 2});
  CHECK(values(nan_to_num(x, -1, 5, -5)) == V{-1, 5, -5, 2});
  CHECK(values(clamp_min(x, 0))[3] == 2);
  CHECK(values(clamp_max(tensor({1, 5}), 3)) == V{1, 3});
  CHECK(values(clamp_min(tensor({1, 5}), 3)) == V{3, 5});
  Tensor leaf = tensor({nan, inf, 3.}).requires_grad_();
  sum(nan_to_num(leaf)).backward();
  CHECK(values(leaf.grad()) == V{0, 0, 1});
}

TEST_CASE("amax shares its gradient among equals, max gives it to the first", "[statistics]") {
  const auto slope = [](auto f) {
    Tensor x = tensor({{1., 3., 3.}, {2., 2., 2.}}, float64).requires_grad_();
    sum(f(x)).backward();
    return values(x.grad());
  };
  CHECK(slope([](const Tensor& x) { return amax(x, 1); }) == V{0, 0.5, 0.5, 1. / 3, 1. / 3, 1. / 3});
  CHECK(slope([](const Tensor& x) { return max(x, 1); }) == V{0, 1, 0, 1, 0, 0});
  CHECK(slope([](const Tensor& x) { return max_with_indices(x, 1).first; }) == V{0, 1, 0, 1, 0, 0});
  const auto [least, at] = min_with_indices(tensor({{4., nan}, {1., 2.}}), 1, keepdims);
  CHECK((least.shape() == Shape{2, 1} && std::isnan(values(least)[0]) && values(at) == V{1, 0}));
}

TEST_CASE("the median is the lower of the two in the middle", "[statistics]") {
  const Tensor x = tensor({{4., 1., 3., 2.}, {nan, 1., 2., 3.}});
  const auto [middle, at] = median(x, 1);
  CHECK((values(middle)[0] == 2 && std::isnan(values(middle)[1])));
  CHECK(values(at) == V{3, 0});
  CHECK(median(tensor({5, 1, 9})).item() == 5);
  CHECK(median(tensor(7.)).item() == 7);
}

TEST_CASE("medians and quantiles are the elements of a sorted slice, of every length and along every axis",
          "[statistics]") {
  for (const DType dtype : {float32, float64, int64})
    for (const std::int64_t n : {1, 2, 64, 65, 128, 129, 1000, 7000}) {
      INFO(n << " of " << dtype);
      Generator g(7);
      Tensor x = randint(-n / 3, n / 3 + 1, {5, n, 3}, g).to(dtype);
      x[1] = 7;                                     // all equal
      x[2] = reshape(arange(n).to(dtype), {n, 1});  // in order
      x[3] = reshape((arange(n) % 64 == 0).to(dtype), {n, 1});
      const auto [in_order, ids] = sort(x, 1);
      const auto [middle, at] = median(x, 1, keepdims);
      const std::int64_t m = (n - 1) / 2;
      CHECK(equal(middle, slice(in_order, 1, m, m + 1)));
      CHECK(equal(at, slice(ids, 1, m, m + 1)));
      if (dtype == int64) continue;
      const double place = 0.3 * static_cast<double>(n - 1), low = std::floor(place);
      const auto i = static_cast<std::int64_t>(low);
      const Tensor y = slice(in_order, 1, i, i + 1), next = n > 1 ? slice(in_order, 1, i + 1, i + 2) : y;
      CHECK(equal(quantile(x, 0.3, 1, keepdims), y + (next - y) * (place - low)));
      const Tensor lost = where(arange(n).reshape({1, n, 1}) == n / 2, nan, x);
      CHECK(all(isnan(median(lost, 1).first)).item<bool>());
      CHECK(all(median(lost, 1).second == n / 2).item<bool>());
      CHECK(all(isnan(quantile(lost, 0.3, 1))).item<bool>());
    }
}

TEST_CASE("the gradients of a median and a quantile go to the elements that they are of", "[statistics]") {
  Tensor x = tensor({{3., 1., 2., 2.}, {0., 4., 8., 6.}}, float64).requires_grad_();
  sum(median(x, 1).first * tensor({1., 10.}, float64)).backward();
  CHECK(values(x.grad()) == V{0, 0, 1, 0, 0, 10, 0, 0});
  x.zero_grad();
  sum(quantile(x, 0.5, 1) * tensor({1., 10.}, float64)).backward();
  CHECK(values(x.grad()) == V{0, 0, 0.5, 0.5, 0, 5, 0, 5});
}

TEST_CASE("quantiles lie between the two nearest", "[statistics]") {
  const Tensor x = tensor({3., 1., 2., 5.}, float64);
  CHECK(quantile(x, 0).item() == 1);
  CHECK(quantile(x, 1).item() == 5);
  CHECK(quantile(x, 0.5).item() == 2.5);
  CHECK(quantile(x, 0.9).item() == Approx(4.4).epsilon(1e-15));
  CHECK(values(quantile(tensor({{1., 2.}, {3., 6.}}), 0.25, 0)) == V{1.5, 3});
  CHECK(std::isnan(quantile(tensor({1., nan}), 0.1).item()));
  constexpr double inf = std::numeric_limits<double>::infinity();
  CHECK(quantile(tensor({-inf, 1.}), 0.5).item() == -inf);
  CHECK(quantile(tensor({1., inf}), 0.5).item() == inf);
  CHECK(quantile(tensor({1., inf, inf}), 0.75).item() == inf);
}

TEST_CASE("argsort, unique, bincount and histogram count", "[statistics]") {
  CHECK(values(argsort(tensor({3., 1., 2.}))) == V{1, 2, 0});
  CHECK(values(argsort(tensor({3., 1., 2.}), -1, descending)) == V{0, 2, 1});
  const Unique u = unique(tensor({{3., 1., 3.}, {nan, nan, 1.}}));
  CHECK((values(u.values)[0] == 1 && values(u.values)[1] == 3 && std::isnan(values(u.values)[2])));
  CHECK(u.inverse.shape() == Shape{2, 3});
  CHECK(values(u.inverse) == V{1, 0, 1, 2, 2, 0});
  CHECK(values(u.counts) == V{2, 2, 2});
  CHECK(unique(zeros({0})).values.numel() == 0);
  CHECK(values(bincount(tensor({1, 3, 1}))) == V{0, 2, 0, 1});
  CHECK(values(bincount(tensor({1, 3, 1}), tensor({0.5, 1., 2.}), 6)) == V{0, 2.5, 0, 1, 0, 0});
  CHECK(values(bincount(tensor({1, 0}), {}, 4)) == V{1, 1, 0, 0});
  CHECK(bincount(zeros({0}, int64)).shape() == Shape{0});
  CHECK(values(bincount(zeros({0}, int64), {}, 2)) == V{0, 0});
  const auto [counts, edges] = histogram(tensor({0., 1., 1.5, 2., 4.}), 4);
  CHECK(values(counts) == V{1, 2, 1, 1});
  CHECK(values(edges) == V{0, 1, 2, 3, 4});
  CHECK(values(histogram(tensor({-1., 0., 0.5, 1., nan}), 2, 0, 1).first) == V{1, 2});
  CHECK_THROWS_WITH(histogram(tensor({1., inf}), 3), Catch::Contains("[histogram]"));
  CHECK_THROWS_WITH(histogram(tensor({1.}), 0), Catch::Contains("[histogram] bins is 0"));
  for (const auto& [low, high] : {std::pair(1., 0.), {0., 0.}, {0., inf}, {nan, 1.}})
    CHECK_THROWS_WITH(histogram(tensor({1.}), 3, low, high),
                      Catch::Contains("both must be finite, and low below high"));
  for (const std::int64_t id : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()})
    CHECK_THROWS_WITH(bincount(tensor({1, id})),
                      "[bincount] an id is " + std::to_string(id) + ": it must be 0 or more, and can be counted");
  CHECK(values(cumprod(tensor({{1, 2}, {3, 4}, {5, 6}}), 0)) == V{1, 2, 3, 8, 15, 48});
}

TEST_CASE("searchsorted counts the elements below", "[statistics]") {
  Generator g(5);
  for (const DType dtype : {float32, float64, bfloat16, int64, boolean})
    for (const Shape& shape : {Shape{40}, Shape{3, 5, 40}, Shape{3, 5, 0}})
      for (const Side side : {Side::left, Side::right}) {
        INFO(dtype << ' ' << shape);
        const Tensor rows = sort(randint(0, 9, shape, g).to(dtype)).first, x = randint(-1, 11, {3, 5, 7}, g).to(dtype);
        const Tensor row = rows.unsqueeze(-2), each = x.unsqueeze(-1);
        const Tensor counts = sum((side == Side::left ? row < each : row <= each).to(int64), -1);
        CHECK(equal(searchsorted(rows, x, side), counts));
      }
  const Tensor ends = tensor({-INFINITY, -0., 1., INFINITY, NAN, NAN}), x = tensor({0., 0.5, INFINITY, NAN, -INFINITY});
  CHECK(values(searchsorted(ends, x)) == V{1, 2, 3, 4, 0});
  CHECK(values(searchsorted(ends, x, Side::right)) == V{2, 2, 4, 6, 1});
  CHECK(searchsorted(ends, tensor(2.)).shape() == Shape{});
  const Tensor many = rand({5000}, float32, g);  // on several threads
  CHECK(equal(searchsorted(arange(1024) / 1024, many, Side::right), floor(many * 1024).to(int64) + 1));
  CHECK_THROWS_WITH(searchsorted(tensor({1., 2., 1.5}), x),
                    "[searchsorted] sorted does not ascend: element 2 of a row is below the one before");
  CHECK_THROWS_WITH(searchsorted(tensor({1., NAN, 1.5}), x), Catch::Contains("does not ascend"));
  CHECK_THROWS_WITH(searchsorted(tensor({1, 2}), x),
                    "[searchsorted] sorted is int64, values float32: convert one of them by to()");
  CHECK_THROWS_WITH(searchsorted(zeros({2, 3}), x),
                    "[searchsorted] sorted has shape [2, 3], values [5]: sorted must be [N], or have the leading axes "
                    "of values");
}

TEST_CASE("multinomial draws by weight", "[statistics]") {
  Generator g(3);
  const Tensor weights = tensor({1., 0., 3., 0.});
  const Tensor ids = multinomial(weights, 40000, Replacement::yes, g);
  const std::vector<double> counts = values(bincount(ids, {}, 4));
  CHECK((counts[1] == 0 && counts[3] == 0));
  CHECK(std::abs(counts[2] / 40000 - 0.75) < 0.01);  // four standard deviations
  int first = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::vector<double> two = values(multinomial(weights, 2, Replacement::no, g));
    CHECK(((two[0] == 0 && two[1] == 2) || (two[0] == 2 && two[1] == 0)));
    first += two[0] == 2;
  }
  CHECK(std::abs(first / 4000. - 0.75) < 0.03);
  CHECK(multinomial(ones({3, 5}), 2).shape() == Shape{3, 2});
  CHECK_THROWS_WITH(multinomial(ones({2, 3, 5}), 2),
                    "[multinomial] weights has shape [2, 3, 5]: it must be [C] or [N, C]");
  CHECK_THROWS_WITH(multinomial(weights, 3), Catch::Contains("2 weights that are not 0, 3 ids"));
  CHECK_THROWS_WITH(multinomial(tensor({-1.}), 1), Catch::Contains("not negative"));
  CHECK(rand_like(weights, g).dtype() == float32);
  CHECK(randn_like(ones({2, 2}, float64), g).shape() == Shape{2, 2});
  CHECK(values(full_like(tensor({1, 2}), 7)) == V{7, 7});
}

}  // namespace fit::test::statistics_test
