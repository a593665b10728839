#include <cmath>
#include <limits>
#include <vector>

#include "fit/detail/function_ref.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

namespace fit::test::reduce_test {
namespace {

using Numbers = std::vector<double>;

// Each output of a reduction of x over the axes in the bits of `mask`, by the plainest possible loops: the numbers that
// go into an output are gathered in order and given to f.
Tensor plain(const Tensor& x, unsigned mask, FunctionRef<double(const Numbers&)> f) {
  const Tensor wide = x.to(float64);
  Shape kept = x.shape();
  for (int a = 0; a < x.rank(); ++a)
    if (mask >> a & 1) kept = kept.with(a, 1);
  std::vector<Numbers> groups(static_cast<std::size_t>(kept.numel()));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::int64_t rest = i, at = 0, step = 1;
    for (int a = x.rank() - 1; a >= 0; --a) {
      if (kept[a] > 1) at += rest % x.shape()[a] * step;
      step *= kept[a];
      rest /= x.shape()[a];
    }
    groups[static_cast<std::size_t>(at)].push_back(wide.data<double>()[i]);
  }
  Numbers results;
  for (const Numbers& g : groups) results.push_back(f(g));
  return tensor(results, kept);
}

double sum_of(const Numbers& g) {
  double s = 0;
  for (const double v : g) s += v;
  return s;
}
double deviation_of(const Numbers& g) {
  const double mean = sum_of(g) / static_cast<double>(g.size());
  double s = 0;
  for (const double v : g) s += (v - mean) * (v - mean);
  return s / (static_cast<double>(g.size()) - 1);
}
double largest_of(const Numbers& g) {
  double m = -inf;
  for (const double v : g) m = std::max(m, v);
  return m;
}

struct Case {
  const char* name;
  Callable<Tensor(const Tensor&, const Axes&)> ours;
  Callable<double(const Numbers&)> plain;
  bool of_nothing = true;  // whether it has a value over nothing
};

std::vector<Case> cases() {
  return {
      {"sum", [](const Tensor& x, const Axes& a) { return sum(x, a, keepdims); }, sum_of},
      {"mean", [](const Tensor& x, const Axes& a) { return mean(x, a, keepdims); },
       [](const Numbers& g) { return sum_of(g) / static_cast<double>(g.size()); }},
      {"var", [](const Tensor& x, const Axes& a) { return var(x, a, Correction{1}, keepdims); },
       [](const Numbers& g) { return g.size() > 1 ? deviation_of(g) : NAN; }},
      {"std", [](const Tensor& x, const Axes& a) { return fit::std(x, a, Correction{1}, keepdims); },
       [](const Numbers& g) { return g.size() > 1 ? std::sqrt(deviation_of(g)) : NAN; }},
      {"prod", [](const Tensor& x, const Axes& a) { return prod(x, a, keepdims); },
       [](const Numbers& g) {
         double p = 1;
         for (const double v : g) p *= v;
         return p;
       }},
      {"max", [](const Tensor& x, const Axes& a) { return max(x, a, keepdims); }, largest_of, false},
      {"min", [](const Tensor& x, const Axes& a) { return min(x, a, keepdims); },
       [](Numbers g) {
         for (double& v : g) v = -v;
         return -largest_of(g);
       },
       false},
      {"norm", [](const Tensor& x, const Axes& a) { return norm(x, 2, a, keepdims); },
       [](Numbers g) {
         for (double& v : g) v *= v;
         return std::sqrt(sum_of(g));
       }},
      {"logsumexp", [](const Tensor& x, const Axes& a) { return logsumexp(x, a, keepdims); },
       [](Numbers g) {
         for (double& v : g) v = std::exp(v);
         return std::log(sum_of(g));
       }},
  };
}

}  // namespace

TEST_CASE("reductions agree with plain loops for every set of axes, on every instruction set", "[reduce]") {
  std::mt19937_64 random(3);
  const std::vector<Shape> shapes = {{},        {1},        {3},      {257},    {1025},         {0},
                                     {3, 0, 2}, {33, 7},    {7, 257}, {257, 3}, {2, 3, 4, 5},   {1, 33, 1, 7},
                                     {3, 1025}, {1025, 17}, {65, 32}, {65, 33}, {2, 5, 3, 2, 4}};
  for (const Case& c : cases())
    for (const Shape& shape : shapes)
      for (unsigned mask = 0; mask < 1u << shape.rank(); ++mask) {
        Axes axes = std::vector<int>();
        std::vector<int> list;
        for (int a = 0; a < shape.rank(); ++a)
          if (mask >> a & 1) list.push_back(a);
        axes = list;
        for (const DType t : {float32, float64}) {
          // Products near 1, so that they stay in range.
          const Tensor x = random_tensor(shape, Domain{0.9, 1.1}, random, t);
          INFO(c.name << " of " << shape << " " << t << ", axes " << mask);
          const Tensor expected = plain(x, mask, c.plain);
          const bool nothing = x.numel() == 0 && expected.numel() > 0;
          if (!c.of_nothing && x.numel() == 0) {
            if (nothing) CHECK_THROWS_AS(c.ours(x, axes), Error);
            continue;
          }
          each_isa([&] {
            const Tensor y = c.ours(x, axes);
            CHECK(y.dtype() == t);
            CHECK(max_difference(y, expected) < (t == float32 ? 1e-7 : 1e-13));
          });
        }
      }
}

TEST_CASE("reductions of much to little: the same bits with any number of threads", "[reduce][heavy]") {
  std::mt19937_64 random(4);
  for (const Shape& shape : std::vector<Shape>{{300001}, {5, 70001}, {70001, 5}, {300, 7, 301}}) {
    const Tensor x = random_tensor(shape, Domain{0.99, 1.01}, random, float32);
    for (const Case& c : cases())
      for (int axis = -1; axis < shape.rank(); ++axis) {
        INFO(c.name << " of " << shape << ", axis " << axis << " (-1: all)");
        const Axes axes = axis < 0 ? Axes() : Axes(axis);
        check_threads([&] { return c.ours(x, axes); });
        const unsigned mask = axis < 0 ? (1u << shape.rank()) - 1 : 1u << axis;
        CHECK(max_difference(c.ours(x, axes), plain(x, mask, c.plain)) < 1e-7);
      }
  }
}

TEST_CASE("float32 sums keep what float32 accumulation would lose", "[reduce]") {
  each_isa([] {
    CHECK(sum(full({10000000}, 0.1f)).item() == Approx(1e6).epsilon(1e-7));
    CHECK(mean(full({1000, 3}, 16777217.0, float64).to(float32)).item() == 16777216);
    // Exact variance around a mean far from zero: 1e4 -+ 1.
    std::vector<float> far(200000);
    for (std::size_t i = 0; i < far.size(); ++i) far[i] = 1e4f + (i % 2 ? 1 : -1);
    const Tensor x = tensor(far, {200000});
    CHECK(var(x, {}, Correction{0}).item() == 1);
    CHECK(var(x).item() == Approx(200000. / 199999).epsilon(1e-7));
    CHECK(max_difference(var(reshape(x, {100000, 2}), 0, Correction{0}), zeros({2})) == 0);
  });
}

TEST_CASE("whole numbers and booleans: sums, products and extremes are exact, averages are refused", "[reduce]") {
  const std::int64_t big = std::int64_t{1} << 53;
  const Tensor x = tensor({{big, 1}, {-3, 5}});
  CHECK(sum(x).item<std::int64_t>() == big + 3);
  CHECK(sum(x, 0).to_vector<std::int64_t>() == std::vector<std::int64_t>{big - 3, 6});
  CHECK(prod(x, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{big, -15});
  CHECK(max(x, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{big, 5});
  CHECK(min(x).item<std::int64_t>() == -3);
  CHECK(cumsum(x, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{big, big + 1, -3, 2});
  const Tensor yes = tensor({{true, false, true}, {false, false, true}});
  CHECK(sum(yes).dtype() == int64);
  CHECK(sum(yes, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 1});
  CHECK(cumsum(yes, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1, 2, 0, 0, 1});
  CHECK(max(yes, 0).to_vector<bool>() == std::vector<bool>{true, false, true});
  CHECK(min(yes).dtype() == boolean);
  CHECK_THROWS_WITH(mean(x),
                    "[mean] x is int64: it must be bfloat16, float32 or float64; convert it with .to(float32)");
}

TEST_CASE("reductions over nothing", "[reduce]") {
  const Tensor none = zeros({2, 0});
  CHECK(sum(none, 1).to_vector<float>() == std::vector<float>{0, 0});
  CHECK(prod(none, 1).to_vector<float>() == std::vector<float>{1, 1});
  CHECK(std::isnan(mean(none).item()));
  CHECK(std::isnan(var(none).item()));
  CHECK(std::isnan(var(zeros({1})).item()));
  CHECK(norm(none, inf).item() == 0);
  CHECK(logsumexp(none).item() == -inf);
  CHECK(all(none).item<bool>());
  CHECK_FALSE(any(none).item<bool>());
  CHECK(sum(none, 0).shape() == Shape{0});
  CHECK(max(none, 0).shape() == Shape{0});
  const Tensor no_lines = zeros({3, 0});
  CHECK(argmax(no_lines, 0).shape() == Shape{0});
  CHECK(cumsum(no_lines, 0).shape() == Shape{3, 0});
  CHECK(softmax(no_lines, 0).shape() == Shape{3, 0});
  CHECK_THROWS_WITH(argmax(none, 1), "[argmax] axis 1 of shape [2, 0] has no elements to choose from");
  CHECK_THROWS_WITH(min(none), "[min] there is nothing to choose from along the axes given of shape [2, 0]");
}

TEST_CASE("a scalar has one axis to reduce over", "[reduce]") {
  const Tensor x = full({}, 3.);
  for (const int axis : {0, -1}) {
    CHECK(sum(x, axis, keepdims).shape() == Shape{});
    CHECK(max(x, axis).item() == 3);
    CHECK(argmax(x, axis).item<std::int64_t>() == 0);
    CHECK(cumsum(x, axis).item() == 3);
  }
  CHECK_THROWS_AS(sum(x, 1), Error);
}

TEST_CASE("max, min and their indices: first of equals, and NaN wins", "[reduce]") {
  each_isa([] {
    for (const std::int64_t n : {1, 3, 7, 33, 257, 1025})
      for (const DType t : {float32, float64}) {
        std::mt19937_64 random(static_cast<std::uint64_t>(n));
        // Few values, so that there are ties.
        Tensor x = random_tensor({5, n}, Domain{0, 8}, random, t).to(int64).to(t);
        const auto expect = [&](const char* what) {
          INFO(what << ", n = " << n << ", " << t);
          const Tensor wide = x.to(float64), side = transpose(x);
          for (std::int64_t r = 0; r < 5; ++r) {
            std::int64_t high = 0, low = 0;
            const double* row = wide.data<double>().data() + r * n;
            for (std::int64_t i = 1; i < n; ++i) {
              if (!std::isnan(row[high]) && (row[i] > row[high] || std::isnan(row[i]))) high = i;
              if (!std::isnan(row[low]) && (row[i] < row[low] || std::isnan(row[i]))) low = i;
            }
            CHECK(argmax(x, 1)[r].item<std::int64_t>() == high);
            CHECK(argmin(x, 1)[r].item<std::int64_t>() == low);
            CHECK(argmax(side, 0)[r].item<std::int64_t>() == high);
            CHECK(argmin(side, 0, keepdims)[{0, r}].item<std::int64_t>() == low);
            const double top = max(x, 1)[r].item();
            CHECK((top == row[high] || (std::isnan(top) && std::isnan(row[high]))));
            const double bottom = min(side, 0)[r].item();
            CHECK((bottom == row[low] || (std::isnan(bottom) && std::isnan(row[low]))));
          }
        };
        expect("finite");
        x[{1, n / 2}] = NAN;
        x[{2, n - 1}] = NAN;
        x[{3, 0}] = inf;
        x[{4, ellipsis}] = -inf;
        expect("not finite");
      }
  });
  CHECK(argmax(tensor({{1, 5}, {7, 2}})).item<std::int64_t>() == 2);
  CHECK(argmin(tensor({true, false, false})).item<std::int64_t>() == 1);
  CHECK(argmax(zeros({2, 3, 4}), 1, keepdims).shape() == Shape{2, 1, 4});
}

TEST_CASE("gradients where there is a choice", "[reduce]") {
  const auto gradient = [](const Tensor& at, FunctionRef<Tensor(const Tensor&)> f) {
    Tensor x = at.detach().requires_grad_();
    sum(f(x)).backward();
    return x.grad().to(float64).to_vector<double>();
  };
  const Tensor ties = tensor({{2., 2., 1.}, {0., 2., 0.}});
  CHECK(gradient(ties, [](const Tensor& x) { return max(x, 1); }) == Numbers{1, 0, 0, 0, 1, 0});
  CHECK(gradient(ties, [](const Tensor& x) { return min(x, -1, keepdims); }) == Numbers{0, 0, 1, 1, 0, 0});
  CHECK(gradient(ties, [](const Tensor& x) { return 3 * max(x); }) == Numbers{1, 1, 0, 0, 1, 0});
  CHECK(gradient(ties, [](const Tensor& x) { return min(x, {0, 1}); }) == Numbers{0, 0, 0, 0.5, 0, 0.5});
  CHECK(gradient(tensor({NAN, 1., NAN}), [](const Tensor& x) { return max(x); }) == Numbers{0.5, 0, 0.5});
  const Tensor zero = zeros({3});
  CHECK(gradient(zero, [](const Tensor& x) { return norm(x); }) == Numbers{0, 0, 0});
  CHECK(gradient(zero, [](const Tensor& x) { return norm(x, 3); }) == Numbers{0, 0, 0});
  CHECK(gradient(zero, [](const Tensor& x) { return norm(x, inf); }) == Numbers{0, 0, 0});
  CHECK(gradient(tensor({1e-40, -2., 0.}), [](const Tensor& x) { return norm(x, 1); }) == Numbers{1, -1, 0});
  CHECK(gradient(tensor({1e-30, 0.}), [](const Tensor& x) { return norm(x, 0.5); })[0] == Approx(1));
  CHECK(gradient(ones({3}), [](const Tensor& x) { return fit::std(x); }) == Numbers{0, 0, 0});
  CHECK(gradient(tensor({2., 0., 3.}), [](const Tensor& x) { return prod(x); }) == Numbers{0, 6, 0});
  CHECK(gradient(tensor({0., 0., 3.}), [](const Tensor& x) { return prod(x); }) == Numbers{0, 0, 0});
  CHECK(gradient(full({2}, -inf), [](const Tensor& x) { return logsumexp(x); }) == Numbers{0, 0});
  CHECK(gradient(tensor({-inf, 1.}), [](const Tensor& x) { return logsumexp(x); }) == Numbers{0, 1});
}

TEST_CASE("logsumexp without overflow", "[reduce]") {
  each_isa([] {
    CHECK(logsumexp(tensor({1000., 1000.})).item() == Approx(1000 + std::log(2.)));
    CHECK(logsumexp(tensor({-1e30, -1e30})).item() == Approx(-1e30));
    CHECK(logsumexp(tensor({inf, 1.})).item() == inf);
    CHECK(logsumexp(full({40}, -inf)).item() == -inf);
    CHECK(std::isnan(logsumexp(tensor({NAN, 1.})).item()));
  });
}

TEST_CASE("norms of every kind", "[reduce]") {
  const Tensor x = tensor({3., -4., 0.});
  CHECK(norm(x).item() == 5);
  CHECK(norm(x, 1).item() == 7);
  CHECK(norm(x, 3).item() == Approx(std::cbrt(91.)));
  CHECK(norm(x, 0.5).item() == Approx(std::pow(std::sqrt(3.) + 2, 2)));
  CHECK(norm(x, inf).item() == 4);
  CHECK(norm(full({4}, 1e30f)).item() == Approx(2e30));
  CHECK(norm(x, 0).item() == 2);
  CHECK(norm(x, -inf).item() == 0);
  CHECK(norm(x, -1).item() == 0);
  CHECK(norm(tensor({3., -4.}), -inf).item() == 3);
  CHECK(norm(tensor({3., -4., -inf}), -1).item() == Approx(12 / 7.));
  CHECK(norm(full({4}, 1e30f), -2).item() == Approx(5e29));
  CHECK(norm(tensor({NAN, 0., 1.}), 0).item() == 2);  // as PyTorch counts
  CHECK(std::isnan(norm(tensor({NAN, 1.}), -inf).item()));
  CHECK(norm(zeros({2, 0}), 0, 1).to_vector<float>() == std::vector<float>{0, 0});
}

TEST_CASE("any and all of every type", "[reduce]") {
  CHECK(any(tensor({{0., NAN}, {0., 0.}}), 1).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(all(tensor({{1, -2}, {0, 3}}), 0).to_vector<bool>() == std::vector<bool>{false, true});
  CHECK(all(tensor({true, true}), {}, keepdims).shape() == Shape{1});
  CHECK(any(zeros({300, 300})).dtype() == boolean);
  Tensor one = zeros({400, 500});
  one[{399, 499}] = 1;
  CHECK(any(one).item<bool>());
  CHECK_FALSE(all(one).item<bool>());
}

TEST_CASE("cumsum agrees with plain loops along any axis", "[reduce]") {
  std::mt19937_64 random(9);
  const Tensor x = random_tensor({3, 257, 300}, domain::real, random, float32);
  const Tensor wide = x.to(float64);
  for (int axis = 0; axis < 3; ++axis) {
    Tensor expected = wide.clone();
    auto e = expected.edit<double>();
    const std::int64_t step = axis == 0 ? 257 * 300 : axis == 1 ? 300 : 1;
    for (std::int64_t i = 0; i < x.numel(); ++i)
      if (i / step % x.size(axis) > 0) e[i] += e[i - step];
    CHECK(max_difference(cumsum(x, axis), expected) < 1e-6);
    check_threads([&] { return cumsum(x, axis); });
  }
}

namespace {

// f(x) and its gradient along the first axis, with the numbers 12345 for NaN.
Tensor with_gradient(Tensor (*f)(const Tensor&), const Tensor& given) {
  const Tensor x = given.clone().requires_grad_(), y = f(x);
  const Tensor dx = grad(y, x, cos(x.detach()).reshape({y.numel(), -1}).sum(1).reshape(y.shape()));
  return nan_to_num(cat({y.detach().reshape({x.size(0), -1}), dx.reshape({x.size(0), -1})}, 1), 12345);
}

}  // namespace

TEST_CASE("products of many slices, and their gradients, have the bits of each slice alone", "[reduce]") {
  std::mt19937_64 random(4);
  for (const DType dtype : {float32, float64}) {
    Tensor rows = random_tensor({21, 150}, domain::real, random, dtype);
    const double large = dtype == float32 ? 1e9 : 1e300;
    rows[1] *= large;      // out of double's range
    rows[2] *= 1 / large;  // and below it
    rows[3] *= 1e-2;       // within it, but for floats
    rows[{range(4, 6), 7}] = 0;
    rows[{5, 149}] = 0;
    rows[{6, 0}] = INFINITY;
    rows[{7, 9}] = NAN;
    rows[{8, range(0, 75)}] *= large;  // out of it on the way
    rows[{8, range(75, 150)}] *= 1 / large;
    for (Tensor (*f)(const Tensor&) :
         {+[](const Tensor& x) { return prod(x, 1); }, +[](const Tensor& x) { return cumprod(x, 1); },
          +[](const Tensor& x) { return transpose(cumprod(transpose(x), 0)); }}) {
      const Tensor all = with_gradient(f, rows);
      for (std::int64_t r = 0; r < rows.size(0); ++r) {
        INFO("row " << r << " of " << dtype);
        CHECK(same_bits(slice(all, 0, r, r + 1), with_gradient(f, slice(rows, 0, r, r + 1))));
      }
      check_threads([&] { return with_gradient(f, rows); });
    }
  }
}

}  // namespace fit::test::reduce_test
