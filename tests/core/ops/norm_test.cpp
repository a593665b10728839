#include <cmath>
#include <vector>

#include "fit/detail/function_ref.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

namespace fit::test::norm_test {
namespace {

// The definitions, in terms of operations.
Tensor plain_layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor centred = x - mean(x, -1, keepdims);
  const Tensor y = centred / sqrt(mean(centred * centred, -1, keepdims) + eps);
  return (weight.defined() ? y * weight : y) + (bias.defined() ? bias : zeros({}, x.dtype()));
}
Tensor plain_rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor y = x / sqrt(mean(x * x, -1, keepdims) + eps);
  return weight.defined() ? y * weight : y;
}

using Inputs = std::vector<Tensor>;

// Value and gradients, with a fixed cotangent.
Inputs with_gradients(Inputs in, DType t, FunctionRef<Tensor(const Inputs&)> f) {
  for (Tensor& x : in)
    if (x.defined()) x = x.to(t).clone().requires_grad_();
  const Tensor y = f(in);
  y.backward(random_like(y.detach().to(float64)).to(t));
  Inputs all{y.detach()};
  for (const Tensor& x : in)
    if (x.defined()) all.push_back(x.grad());
  return all;
}

void check_same(const Inputs& ours, const Inputs& expected, double tolerance) {
  REQUIRE(ours.size() == expected.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    INFO("result " << i << " (value, then gradients)");
    CHECK(max_difference(ours[i], expected[i]) < tolerance);
  }
}

}  // namespace

TEST_CASE("layer_norm and rms_norm agree with their definitions on every instruction set", "[norm]") {
  std::mt19937_64 random(2);
  for (const std::int64_t n : {1, 3, 7, 33, 257, 1025})
    for (const bool weighted : {true, false}) {
      const Tensor x = random_tensor({2, 19, n}, domain::real, random);
      const Tensor weight = weighted ? random_tensor({n}, domain::real, random) : Tensor();
      const Tensor bias = weighted ? random_tensor({n}, domain::real, random) : Tensor();
      const auto layer = [](const Inputs& in) { return layer_norm(in[0], in[1], in[2]); };
      const auto rms = [](const Inputs& in) { return rms_norm(in[0], in[1]); };
      const auto expected = with_gradients(
          {x, weight, bias}, float64, [](const Inputs& in) { return plain_layer_norm(in[0], in[1], in[2], 1e-5); });
      const auto expected_rms =
          with_gradients({x, weight}, float64, [](const Inputs& in) { return plain_rms_norm(in[0], in[1], 1e-6); });
      INFO("n = " << n << (weighted ? ", weighted" : ""));
      // Of a few numbers the variance may be small: 1/std, up to 316, is then a factor of every rounding.
      const double narrow = n < 7 ? 1e-4 : 5e-6;
      each_isa([&] {
        check_same(with_gradients({x, weight, bias}, float32, layer), expected, narrow);
        check_same(with_gradients({x, weight, bias}, float64, layer), expected, 1e-13);
        check_same(with_gradients({x, weight}, float32, rms), expected_rms, narrow);
        check_same(with_gradients({x, weight}, float64, rms), expected_rms, 1e-13);
      });
    }
}

TEST_CASE("layer_norm far from zero keeps what the differences say", "[norm]") {
  std::mt19937_64 random(6);
  // Multiples of 1/4: exact in float32 around a million.
  const Tensor noise = random_tensor({3, 257}, Domain{-20, 20}, random).to(int64).to(float64) / 4.;
  for (const double shift : {1e4, 1e6}) {
    const Tensor x = noise + shift;
    const auto expected = with_gradients({noise}, float64, [](const Inputs& in) { return layer_norm(in[0]); });
    each_isa([&] {
      check_same(with_gradients({x}, float32, [](const Inputs& in) { return layer_norm(in[0]); }), expected, 2e-6);
    });
  }
  // A row of equal numbers is 0 but for the bias, with a variance of exactly 0.
  each_isa([] {
    CHECK(max_difference(layer_norm(full({2, 33}, 1234567.0)), zeros({2, 33})) == 0);
    CHECK(max_difference(layer_norm(full({2, 33}, 0.1), ones({33}), full({33}, 3.)), full({2, 33}, 3.)) < 1e-6);
  });
}

TEST_CASE("norms: the same bits with any number of threads, in gradients too", "[norm]") {
  std::mt19937_64 random(8);
  const Tensor x = random_tensor({701, 129}, domain::real, random), weight = random_tensor({129}, domain::real, random);
  const Inputs once =
      with_gradients({x, weight, weight}, float32, [](const Inputs& in) { return layer_norm(in[0], in[1], in[2]); });
  for (std::size_t i = 0; i < once.size(); ++i)
    check_threads([&] {
      return with_gradients({x, weight, weight}, float32,
                            [](const Inputs& in) { return layer_norm(in[0], in[1], in[2]); })[i];
    });
  check_threads([&] {
    return with_gradients({x, weight}, float32, [](const Inputs& in) { return rms_norm(in[0], in[1]); })[2];
  });
}

TEST_CASE("rows: results too large for the caches have the bits of smaller ones", "[norm]") {
  const auto same_by_halves = [](FunctionRef<Tensor(const Tensor&)> f) {
    std::mt19937_64 random(1);
    const Tensor x = random_tensor({1056, 2048}, domain::real, random, float32), dy = random_like(x);
    const auto with_gradient = [&](const Tensor& part, const Tensor& dpart) {
      const Tensor in = part.clone().requires_grad_(), y = f(in);
      y.backward(dpart);
      return Inputs{y.detach(), in.grad()};
    };
    const Inputs whole = with_gradient(x, dy);
    for (const auto& part : {range(0, 528), range(528)}) {
      const Inputs some = with_gradient(x[{part}], dy[{part}]);
      for (std::size_t i = 0; i < 2; ++i) CHECK(same_bits(whole[i][{part}], some[i]));
    }
  };
  each_isa([&] {
    same_by_halves([](const Tensor& x) { return layer_norm(x); });
    same_by_halves([](const Tensor& x) { return softmax(x); });
    same_by_halves([](const Tensor& x) { return log_softmax(x); });
  });
}

TEST_CASE("norms: mixed types promote, what is not finite stays in its row", "[norm]") {
  const Tensor x = tensor({{1., 2., 3.}, {4., 6., 8.}});
  const Tensor weight = ones({3}, float64);
  CHECK(layer_norm(x, weight).dtype() == float64);
  CHECK(layer_norm(x, weight).to_vector<double>()[0] == Approx(-1.2247356859));
  CHECK(rms_norm(x, weight).to_vector<double>()[5] == Approx(8 / std::sqrt(116 / 3. + 1e-6)));
  each_isa([] {
    for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
      Tensor rows = tensor({{1., 2., 3.}, {4., 6., 8.}});
      rows[{0, 1}] = bad;
      const auto y = layer_norm(rows).to_vector<float>(), z = rms_norm(rows).to_vector<float>();
      CHECK((std::isnan(y[1]) && std::isnan(z[1])));
      CHECK(y[3] == Approx(-1.2247434));
      CHECK(z[5] == Approx(8 / std::sqrt(116 / 3.)));
    }
  });
}

TEST_CASE("norms of long rows keep their digits", "[norm]") {
  const std::int64_t n = 1'000'000;  // a float32 sum of all has an error of 1e-4
  const Tensor x = cat({full({1, n}, 0.3, float32), full({1, n}, -0.1, float32)}, -1), wide = x.to(float64);
  each_isa([&] {
    CHECK(max_difference(layer_norm(x), layer_norm(wide)) < 4e-6);
    CHECK(max_difference(rms_norm(x), rms_norm(wide)) < 4e-6);
  });
}

TEST_CASE("without a graph, norms of bfloat16 have the bits of the float32 ones, rounded once", "[norm][bfloat16]") {
  each_isa([] {
    for (const std::int64_t n : {1, 7, 33, 1000, 5000})
      for (const bool weighted : {true, false}) {
        INFO("rows of " << n << (weighted ? " with weights" : ""));
        const Tensor x = randn({2, 9, n}, bfloat16);
        const Tensor weight = weighted ? randn({n}, bfloat16) : Tensor(),
                     bias = weighted ? randn({n}, bfloat16) : weight;
        const auto wide = [](const Tensor& t) { return t.defined() ? t.to(float32) : t; };
        const Tensor layer = layer_norm(wide(x), wide(weight), wide(bias)), rms = rms_norm(wide(x), wide(weight));
        CHECK(same_bits(layer_norm(x, weight, bias), layer.to(bfloat16)));
        CHECK(same_bits(rms_norm(x, weight), rms.to(bfloat16)));
        const Tensor leaf = x.clone().requires_grad_();
        CHECK(same_bits(layer_norm(leaf, weight, bias).detach(), layer.to(bfloat16)));
      }
  });
}

}  // namespace fit::test::norm_test
