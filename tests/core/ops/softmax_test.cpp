#include <cmath>
#include <vector>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

namespace fit::test::softmax_test {
namespace {

Tensor drawn(const Shape& shape, DType dtype, double scale = 2) {
  std::mt19937_64 random(11);
  return random_tensor(shape, Domain{-scale, scale}, random, dtype);
}

// Softmax along the middle axis of [outer, n, inner], in plain loops.
std::vector<double> plain_softmax(const Tensor& x, bool logarithm) {
  const Tensor wide = x.to(float64);
  const auto p = wide.data<double>();
  const std::int64_t n = x.size(1), inner = x.size(2);
  std::vector<double> y(static_cast<std::size_t>(x.numel()));
  for (std::int64_t o = 0; o < x.size(0); ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto at = [&](std::int64_t r) { return static_cast<std::size_t>((o * n + r) * inner + i); };
      double max = -inf, sum = 0;
      for (std::int64_t r = 0; r < n; ++r) max = std::max(max, p[static_cast<std::int64_t>(at(r))]);
      for (std::int64_t r = 0; r < n; ++r) sum += std::exp(p[static_cast<std::int64_t>(at(r))] - max);
      for (std::int64_t r = 0; r < n; ++r) {
        const double shifted = p[static_cast<std::int64_t>(at(r))] - max;
        y[at(r)] = logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
      }
    }
  return y;
}

}  // namespace

TEST_CASE("softmax and log_softmax agree with plain loops on every instruction set", "[softmax]") {
  for (const DType t : {float32, float64})
    for (const std::int64_t n : {1, 3, 7, 33, 257, 1025})
      for (const std::int64_t inner : {1, 3, 16, 257}) {
        const Tensor x = drawn({3, n, inner}, t, 30);
        INFO(t << " " << x.shape());
        const auto soft = tensor(plain_softmax(x, false), x.shape()), log = tensor(plain_softmax(x, true), x.shape());
        each_isa([&] {
          const double ulp = t == float32 ? 0x1p-23 : 0x1p-52;
          CHECK(max_difference(softmax(x, 1), soft) < 8 * ulp);
          CHECK(max_difference(log_softmax(x, 1), log) < 8 * ulp);
          check_threads([&] { return softmax(x, 1); });
          check_threads([&] { return log_softmax(x, 1); });
        });
      }
}

TEST_CASE("softmax: rows sum to one, a shift changes nothing, and the gradient of a row sums to zero", "[softmax]") {
  Tensor x = drawn({5, 33}, float64, 10).requires_grad_();
  CHECK(max_difference(sum(softmax(x), -1), ones({5}, float64)) < 1e-15);
  CHECK(max_difference(softmax(x + 1000.), softmax(x)) < 1e-12);
  softmax(x).backward(drawn({5, 33}, float64));
  CHECK(max_difference(sum(x.grad(), -1), zeros({5}, float64)) < 1e-15);
  CHECK(max_difference(softmax(full({2, 10}, 3.)), full({2, 10}, 0.1)) < 1e-8);
}

TEST_CASE("softmax: what is not finite", "[softmax]") {
  for (const int axis : {0, 1}) {
    const auto along = [&](const Tensor& x) { return axis == 1 ? x : transpose(x); };
    const auto of = [&](std::vector<double> row) {
      const Tensor x = tensor(row, {1, static_cast<std::int64_t>(row.size())});
      const Tensor wide = cat({x, zeros({1, x.size(1)}, float64)});  // beside a row that is finite
      return along(softmax(along(wide).to(float32), axis)).to(float64).to_vector<double>();
    };
    each_isa([&] {
      const auto masked = of({0, -inf, 0});
      CHECK(masked == std::vector<double>{0.5, 0, 0.5, 1 / 3.f, 1 / 3.f, 1 / 3.f});
      for (const double v : {-inf, inf}) {
        const auto y = of({v, v, v});
        CHECK((std::isnan(y[0]) && std::isnan(y[2]) && y[3] == 1 / 3.f));
      }
      std::vector<double> long_row(40, 0.5);
      long_row[17] = NAN;
      const auto y = of(long_row);
      for (int i = 0; i < 40; ++i) CHECK(std::isnan(y[static_cast<std::size_t>(i)]));
      CHECK(y[40] == 1 / 40.f);
    });
  }
}

TEST_CASE("cross_entropy_rows: -ln of the target's probability, without one for ignored rows", "[softmax]") {
  for (const DType t : {float32, float64})
    for (const std::int64_t n : {1, 3, 7, 33, 257, 50257}) {
      std::vector<std::int64_t> ids;
      for (const std::int64_t i : {std::int64_t{0}, n / 2, std::int64_t{-1}, n - 1}) ids.push_back(i);
      const Tensor targets = tensor(ids, {4});
      const Tensor logits = drawn({4, n}, t, 9);
      const Tensor chosen =
          reshape(gather(log_softmax(logits.to(float64)), 1, unsqueeze(clamp(targets, 0, n), 1)), {4});
      const Tensor expected = masked_fill(neg(chosen), eq(targets, -1), 0);
      const Tensor dy = drawn({4}, t);
      const Tensor probabilities = softmax(logits.to(float64)) - one_hot(clamp(targets, 0, n), n, float64);
      const Tensor gradient = probabilities * unsqueeze(masked_fill(dy.to(float64), eq(targets, -1), 0), 1);
      INFO(t << ", " << n << " classes");
      each_isa([&] {
        Tensor x = logits.clone().requires_grad_();
        const Tensor y = cross_entropy_rows(x, targets, -1);
        y.backward(dy);
        CHECK(max_difference(y.detach(), expected) < (t == float32 ? 1e-6 : 1e-14));
        CHECK(max_difference(x.grad(), gradient) < (t == float32 ? 1e-6 : 1e-14));
      });
      check_threads([&] { return cross_entropy_rows(logits, targets, -1); });
    }
}

TEST_CASE("cross_entropy_rows: large logits, equal ones, hidden and missing numbers", "[softmax]") {
  const Tensor first = tensor({0});
  each_isa([&] {
    CHECK(cross_entropy_rows(tensor({{1e30, -1e30}}), first).item() == 0);
    CHECK(cross_entropy_rows(tensor({{10000., 10001.}}), first).item() == Approx(std::log1p(std::exp(1.))));
    CHECK(cross_entropy_rows(full({1, 100003}, 0.1), first).item() == Approx(std::log(100003.)).epsilon(2e-7));
    CHECK(cross_entropy_rows(tensor({{1., -inf}}), first).item() == 0);
    CHECK(cross_entropy_rows(tensor({{-inf, 1.}}), first).item() == inf);
    CHECK(std::isnan(cross_entropy_rows(tensor({{1., NAN}}), first).item()));
    // A NaN in a row that is ignored stays there, in first and second derivatives, too.
    Tensor x = tensor({{1., 2.}, {NAN, NAN}}).requires_grad_();
    const Tensor y = cross_entropy_rows(x, tensor({0, -100}));
    CHECK(y.to_vector<float>()[1] == 0);
    const Tensor g = grad({sum(y)}, {x}, create_graph)[0];
    CHECK(max_difference(g.detach(), tensor({{-0.73105858, 0.73105858}, {0., 0.}})) < 1e-6);
    CHECK(max_difference(grad({sum(g * g)}, {x})[0][1], zeros({2})) == 0);
  });
}

TEST_CASE("cross_entropy_rows writes its gradient over logits that nobody else has", "[softmax]") {
  const Tensor x = drawn({5, 33}, float64).requires_grad_(), targets = tensor({0, 32, 7, 7, -100});
  // Passes x on by a copy, and takes down where its gradient lies.
  static const void* where = nullptr;
  const auto copy = [&] {
    return record("copy", {x}, x.detach().clone(), keep::nothing, [](Backward& b) {
      where = b.dy().raw();
      b.give(0, b.dy());
    });
  };
  const Tensor expected = grad({sum(cross_entropy_rows(x, targets))}, {x})[0];
  const auto gradient = [&](const Tensor& loss, GraphFlags flags) {
    Tensor(x).zero_grad();
    loss.backward(flags);
    return x.grad().clone();
  };
  const void* logits_at = nullptr;
  const auto loss_alone = [&] {
    const Tensor logits = copy();
    logits_at = logits.raw();
    return sum(cross_entropy_rows(reshape(logits, {5, 33}), targets));
  };
  CHECK(equal(gradient(loss_alone(), {}), expected));
  CHECK(where == logits_at);
  SECTION("not where the graph is retained") {
    const Tensor loss = loss_alone();
    CHECK(equal(gradient(loss, retain_graph), expected));
    CHECK(where != logits_at);
    CHECK(equal(gradient(loss, {}), expected));
    CHECK(where == logits_at);
    CHECK_THROWS_WITH(loss.backward(), Catch::Contains("retain_graph"));
  }
  SECTION("not where a tensor has them") {
    const Tensor logits = copy(), before = logits.detach().clone();
    CHECK(equal(gradient(sum(cross_entropy_rows(logits, targets)), {}), expected));
    CHECK(where != logits.raw());
    CHECK(equal(logits.detach(), before));
  }
  SECTION("not where another operation needs them") {
    const Tensor loss = [&] {
      const Tensor logits = copy();
      const Tensor squares = sum(logits * logits);  // its gradient comes after
      return squares + sum(cross_entropy_rows(logits, targets));
    }();
    CHECK(max_difference(gradient(loss, {}), expected + x.detach() * 2.) < 1e-15);
  }
}

TEST_CASE("softmax along a long axis that is not the last keeps its digits", "[softmax]") {
  const std::int64_t n = 100'000;  // a float32 sum of all has an error of 1e-3
  Tensor x = full({n, 2}, -0.3, float32), dy = full({n, 2}, 0.1, float32);
  x[{0}] = 0;
  dy[{range(n / 2)}] = 0;
  const auto of = [&](DType t, Tensor (*f)(const Tensor&, int)) {
    const Tensor leaf = x.to(t).clone().requires_grad_(), y = f(leaf, 0);
    return std::pair(y.detach(), grad({y}, {leaf}, {dy.to(t)})[0]);
  };
  for (Tensor (*const f)(const Tensor&, int) : {softmax, log_softmax}) {
    const auto [y, dx] = of(float64, f);
    each_isa([&, y = y, dx = dx, f = f] {
      const auto [near_y, near_dx] = of(float32, f);
      CHECK(max_difference(near_y, y) < 4e-6 * max(abs(y)).item());
      CHECK(max_difference(near_dx, dx) < 4e-6 * max(abs(dx)).item());
    });
  }
}

}  // namespace fit::test::softmax_test
