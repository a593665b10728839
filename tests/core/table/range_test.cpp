#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Results that a type holds although their squares, sums or products on the way leave its range. Exact values are from
// mpmath with 40 digits.
namespace fit::test::range_test {
namespace {

using Numbers = std::vector<double>;
using Function = Callable<Tensor(const Tensor&)>;

Tensor of(const Numbers& numbers, DType t) { return tensor(numbers).to(t); }

// Whether all numbers are right, but for roundings of the largest, or of each.
enum class Relative { to_largest, to_each };
void check_numbers(const Tensor& got, const Numbers& expected, Relative relative = Relative::to_largest) {
  const double unit = got.dtype() == float64 ? 0x1p-53 : got.dtype() == float32 ? 0x1p-24 : 0x1p-8;
  const Numbers numbers = values(got.detach());
  REQUIRE(numbers.size() == expected.size());
  double largest = 0;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    INFO("element " << i << " of " << got.detach() << ": " << numbers[i] << ", right is " << expected[i]);
    const double size = relative == Relative::to_each ? std::abs(expected[i]) : largest;
    CHECK(std::abs(numbers[i] - expected[i]) <= 8 * unit * size);
  }
}

Tensor gradient(const Function& f, const Tensor& x, const Numbers& seed) {
  const Tensor leaf = x.clone().requires_grad_(), y = f(leaf);
  return grad({y}, {leaf}, {reshape(of(seed, y.dtype()), y.shape())})[0];
}

Numbers times(Numbers all, double s) {
  for (double& v : all) v *= s;
  return all;
}

// Sizes whose squares leave the type's range, and whose reciprocals do not.
const std::vector<std::pair<DType, Numbers>> huge{{float32, {3e19, 1e20, 1e37}}, {float64, {1e155, 1e200, 1e307}}};
const std::vector<std::pair<DType, Numbers>> tiny{{float32, {1e-22, 1e-30, 1e-37}},
                                                  {float64, {1e-160, 1e-200, 1e-307}}};

template <class Body>
void each_size(const std::vector<std::pair<DType, Numbers>>& all, const Body& body) {
  each_isa([&] {
    for (const auto& [t, sizes] : all)
      for (const double size : sizes) {
        INFO(t << ", numbers of " << size);
        body(t, size);
      }
  });
}

const Numbers row{3, -1, 2, 1}, seed{1, 2, -1, 3};
const Numbers layer{1.1832159566199232085, -1.5212776585113298395, 0.50709255283710994651, -0.1690308509457033155};
const Numbers layer_dx{0.4056740422696879572, -0.23181373843982168983, -1.2749755614190192941, 1.1011152575891530267};
const Numbers rms{1.5491933384829667541, -0.51639777949432225136, 1.0327955589886445027, 0.51639777949432225136};
const Numbers rms_dx{0.30983866769659335081, 1.1016485962545541362, -0.65410385402614151839, 1.4803403012170571206};

}  // namespace

TEST_CASE("layer, group, batch and rms norm of huge rows, with gradients", "[range]") {
  const std::vector<std::pair<const char*, Function>> centred{
      {"layer_norm", [](const Tensor& x) { return layer_norm(x); }},
      {"group_norm",
       [](const Tensor& x) {
         return group_norm(reshape(x, {1, 4}), 1);
       }},
      {"batch_norm", [](const Tensor& x) {
         return batch_norm(reshape(x, {4, 1}), {}, {});
       }}};
  each_size(huge, [&](DType t, double size) {
    const Tensor x = of(times(row, size), t);
    for (const auto& [name, f] : centred) {
      INFO(name);
      check_numbers(f(x), layer);
      check_numbers(gradient(f, x, seed) * (size / 4), times(layer_dx, 0.25));
    }
    const Function root = [](const Tensor& x) { return rms_norm(x); };
    check_numbers(root(x), rms);
    check_numbers(gradient(root, x, seed) * (size / 4), times(rms_dx, 0.25));
  });
}

TEST_CASE("second derivatives of norms of huge rows", "[range]") {
  const std::vector<std::pair<const char*, Function>> norms{
      {"layer_norm", [](const Tensor& x) { return layer_norm(x); }},
      {"rms_norm", [](const Tensor& x) { return rms_norm(x); }},
      {"batch_norm", [](const Tensor& x) {
         return batch_norm(reshape(x, {4, 1}), {}, {});
       }}};
  for (const auto& [t, size] : {std::pair{float32, 1e20}, {float64, 1e200}})
    for (const auto& [name, f] : norms) {
      INFO(name << ", " << t);
      // The second derivative along v, by the same function of numbers near 1: it has degree -2.
      const auto second = [&, f = f, t = t](double factor) {
        const Tensor x = of(times(row, factor), t).requires_grad_(), y = f(x);
        const Tensor dx = grad({y}, {x}, {reshape(of(seed, t), y.shape())}, create_graph)[0];
        return grad({dx}, {x}, {of(times({1, -2, 3, 1}, factor), t)})[0] * factor;
      };
      check_numbers(second(size), values(second(size == 1e20 ? 0x1p40 : 0x1p100)));  // no eps there, either
    }
}

TEST_CASE("norms of negative p give the least element its gradient beside the largest", "[range]") {
  for (const DType t : {float32, float64})
    for (const double p : {-std::numeric_limits<double>::infinity(), -2., -1., -0.5}) {
      INFO(t << ", p " << p);
      const double least = t == float32 ? 1e-30 : 1e-200, largest = t == float32 ? 1e30 : 1e300;
      Tensor x = tensor({largest, -least, largest}, t).requires_grad_();
      const Tensor y = norm(x, p), dx = grad(y, x, create_graph);
      CHECK(y.item() == Approx(least).epsilon(1e-6));
      CHECK(allclose(dx, tensor({0., -1., 0.}, t), 1e-6));
      if (std::isfinite(p)) CHECK(all(isfinite(grad(sum(dx), x))).item<bool>());
    }
}

TEST_CASE("the sum of magnitudes has a slope of 1 or -1 however small an element is beside the largest", "[range]") {
  each_size(huge, [](DType t, double size) {
    Tensor x = tensor({size, 0., -1e-30, 1e-30}, t).requires_grad_();
    check_numbers(grad(norm(x, 1), x), {1, 0, -1, 1});
  });
}

TEST_CASE("norms of rows without eps, for tiny rows", "[range]") {
  each_size(tiny, [&](DType t, double size) {
    const Tensor x = of(times(row, size), t), weight = of({1, 1, 1, 1}, t);
    check_numbers(layer_norm(x, weight, {}, 0), layer);
    check_numbers(rms_norm(x, weight, 0), rms);
    check_numbers(group_norm(reshape(x, {1, 4}), 1, {}, {}, 0), layer);
    check_numbers(batch_norm(reshape(x, {4, 1}), {}, {}, {}, {}, 0), layer);
    const Function f = [&](const Tensor& x) { return layer_norm(x, weight, {}, 0); };
    check_numbers(gradient(f, x, times(seed, size)), layer_dx);
    // eps is right beside rows of its size: sqrt(var + eps) with var = 2.1875 eps.
    if (t == float32) check_numbers(layer_norm(x, weight, {}, size * size), times(layer, std::sqrt(2.1875 / 3.1875)));
    // A usual eps is all that counts.
    check_numbers(layer_norm(x, {}, {}, 1e-4), times({1.75, -2.25, 0.75, -0.25}, size * 100));
  });
}

TEST_CASE("norms of rows: huge rows of equal numbers are 0, and what is not finite stays so", "[range]") {
  each_isa([] {
    for (const DType t : {float32, float64}) {
      const double top = t == float32 ? 3e38 : 1.7e308;
      const Tensor equal_numbers = full({1, 5}, top, t);
      CHECK(values(layer_norm(equal_numbers)) == Numbers(5, 0));
      INFO(t);
      check_numbers(gradient([](const Tensor& x) { return layer_norm(x); }, equal_numbers, {1, 0, 0, 0, 0}),
                    times({0.8, -0.2, -0.2, -0.2, -0.2}, std::sqrt(1e5)));
      check_numbers(layer_norm(of({top, -top}, t)), {1, -1});
      // dx = (dy - mean(dy) - h mean(dy h)) / std with h = {r, -r, 0}, r = sqrt(3 / 2), std = top / r
      const Function no_eps = [](const Tensor& x) { return layer_norm(x, {}, {}, 0); };
      const auto check_ends = [&](double size, double dy) {
        check_numbers(gradient(no_eps, of({size, -size, 0}, t), {dy, dy, 0}),
                      times({1, 1, -2}, std::sqrt(1.5) / 3 * (dy / size)));
      };
      t == float32 ? check_ends(3e38, 0x1p100) : check_ends(1.7e308, 0x1p1000);
      t == float32 ? check_ends(0x1p-149, 0x1p-100) : check_ends(0x1p-1074, 0x1p-1000);
      for (const double bad : {inf, -inf, nan}) {
        const Tensor rows = of({top, bad, 1, top, -top, top}, t).reshape({2, 3}), y = layer_norm(rows);
        for (int i = 0; i < 3; ++i) CHECK(std::isnan(values(y)[i]));
        CHECK(std::isfinite(values(y)[3]));
        CHECK(std::isnan(values(rms_norm(rows))[1]));
        CHECK(std::isnan(values(rms_norm(rows))[0]) == std::isnan(bad));
        const double length = values(norm(rows, 2, -1))[0];
        CHECK((std::isnan(bad) ? std::isnan(length) : length == inf));
        CHECK(std::isnan(values(fit::std(rows, -1))[0]));
      }
    }
  });
  // The rows of one tensor do not depend on each other.
  std::mt19937_64 random(4);
  const Tensor usual = random_tensor({3, 33}, domain::real, random, float32);
  const Tensor mixed = cat({usual * 1e30, usual, usual * 1e-30});
  each_isa([&] {
    CHECK(same_bits(slice(layer_norm(mixed), 0, 3, 6), layer_norm(usual)));
    CHECK(same_bits(slice(normalize(mixed), 0, 3, 6), normalize(usual)));
    const Tensor leaf = mixed.clone().requires_grad_(), alone = usual.clone().requires_grad_();
    const Tensor dy = random_like(usual);
    CHECK(same_bits(slice(grad({layer_norm(leaf)}, {leaf}, {cat({dy, dy, dy})})[0], 0, 3, 6),
                    grad({layer_norm(alone)}, {alone}, {dy})[0]));
    CHECK(same_bits(slice(grad({normalize(leaf)}, {leaf}, {cat({dy, dy, dy})})[0], 0, 3, 6),
                    grad({normalize(alone)}, {alone}, {dy})[0]));
  });
}

TEST_CASE("bfloat16 rows of any size are normalised, with and without a graph", "[range][bfloat16]") {
  each_isa([] {
    for (const double size : {0x1p100, 0x1p124}) {
      const Tensor x = of(times(row, size), bfloat16);
      check_numbers(layer_norm(x), layer);
      check_numbers(rms_norm(x), rms);
      check_numbers(layer_norm(x.clone().requires_grad_()), layer);
      check_numbers(normalize(x), times(rms, 0.5));
    }
  });
}

TEST_CASE("norm, std and distances of huge and tiny numbers, with gradients", "[range]") {
  const Numbers v{3, -1, 2};
  const Numbers unit{0.80178372573727315405, -0.26726124191242438468, 0.53452248382484876937};
  const Numbers unit_dx{0.32453150803651532426, 0.51543239511681845618, -0.2290810644963637583};
  const double length = std::sqrt(14), deviation = 2.0816659994661327353;
  const Numbers std_dx{0.40032038451271783371, -0.56044853831780496719, 0.16012815380508713348};
  const auto check = [&](DType t, double size) {
    const Tensor x = of(times(v, size), t);
    for (const double p : {1., 2., 3., 0.5, -1.}) {
      INFO("p = " << p);
      const Function f = [p](const Tensor& x) { return norm(x, p); };
      const Tensor near_one = of(v, float64);
      check_numbers(f(x), times(values(f(near_one)), size));
      check_numbers(gradient(f, x, {1}), values(gradient(f, near_one, {1})));
    }
    check_numbers(gradient([](const Tensor& x) { return norm(x); }, x, {1}), unit);
    const Function standard = [](const Tensor& x) { return fit::std(x); };
    check_numbers(standard(x), {deviation * size});
    check_numbers(gradient(standard, x, {1}), std_dx);
    const Function divided = [](const Tensor& x) { return normalize(x, 2, -1, 5e-324); };
    check_numbers(divided(x), unit);
    if (size > 1) {
      check_numbers(normalize(x), unit);
      check_numbers(gradient(divided, x, {1, 2, -1}) * (size / 4), times(unit_dx, 0.25));
    } else {
      check_numbers(gradient(divided, x, times({1, 2, -1}, size)), unit_dx);
    }
    check_numbers(cosine_similarity(x, of({1, 0, 0}, t), -1, 5e-324), {unit[0]});
    check_numbers(cosine_similarity(x, x, -1, 5e-324), {1});
    const Tensor origin = zeros({1, 3}, t);
    check_numbers(cdist(reshape(x, {1, 3}), origin), {length * size});
    check_numbers(gradient([&](const Tensor& x) { return cdist(x, origin); }, reshape(x, {1, 3}), {1}), unit);
  };
  each_size(huge, check);
  each_size(tiny, check);
}

TEST_CASE("norms that the type does not hold have gradients", "[range]") {
  each_isa([] {
    const double half = std::sqrt(0.5);
    const Function euclid = [](const Tensor& x) { return norm(x); };
    CHECK(norm(of({3e38, 3e38}, float32)).item() == inf);
    check_numbers(gradient(euclid, of({3e38, 3e38}, float32), {1}), {half, half});
    check_numbers(gradient(euclid, of({1.7e308, 1.7e308}, float64), {1}), {half, half});
    check_numbers(gradient(euclid, of({0x1p-144, -0x1p-144}, float32), {1}), {half, -half});
    check_numbers(gradient(euclid, of({0x1p-1070, 0x1p-1070}, float64), {1}), {half, half});
    check_numbers(normalize(of({3e38, 3e38}, float32)), {half, half});
    check_numbers(normalize(of({1.7e308, -1.7e308}, float64)), {half, -half});
    CHECK(values(gradient(euclid, zeros({3}), {1})) == Numbers(3, 0));
    // The gradient of the direction: 1e-30 of the size of x.
    check_numbers(gradient([](const Tensor& x) { return normalize(x); }, of({3e30, -1e30, 2e30}, float32), {1, 2, -1}),
                  {0.32453150803651532e-30, 0.51543239511681846e-30, -0.2290810644963637583e-30});
    const Tensor a = of({1e30, 0}, float32), b = of({1e30, 1e30}, float32);
    check_numbers(gradient([&](const Tensor& x) { return cosine_similarity(x, b); }, a, {1}), {0, half * 1e-30});
    check_numbers(gradient([&](const Tensor& x) { return cosine_similarity(a, x); }, b, {1}),
                  {half / 2 * 1e-30, -half / 2 * 1e-30});
    // Second derivatives: of norm({x, y}) by x is y^2 / norm^3.
    const Tensor x = of({3e25, 4e25}, float32).requires_grad_();
    const Tensor dx = grad(norm(x), {x}, create_graph)[0];
    check_numbers(grad(sum(slice(dx, 0, 0, 1)), {x})[0] * 5e25, {0.64, -0.48});
  });
}

TEST_CASE("sums, means and quantiles that fit though sums on the way do not", "[range]") {
  each_isa([] {
    CHECK(mean(of({1.7e308, 1.7e308}, float64)).item() == 1.7e308);
    CHECK(mean(of({3e38, 3e38}, float32)).item() == 3e38f);
    CHECK(values(mean(of({1.7e308, 1.7e308, 1, 3}, float64).reshape({2, 2}), -1)) == Numbers{1.7e308, 2});
    CHECK(sum(of({1.5e308, 1.5e308, -1.5e308}, float64)).item() == 1.5e308);
    CHECK(sum(of({1.5e308, 1.5e308}, float64)).item() == inf);
    CHECK(mean(of({inf, 1}, float64)).item() == inf);
    CHECK(std::isnan(mean(of({inf, -inf}, float64)).item()));
    check_numbers(gradient([](const Tensor& x) { return var(x); }, of({3e38, 3e38, 0x1p120}, float32), {0x1p-126}),
                  times({1, 1, -2}, (3e38 - 0x1p120) / 3 * 0x1p-126));
    CHECK(quantile(of({-3e38, 3e38}, float32), 0.5).item() == 0);
    check_numbers(quantile(of({-1.7e308, 1.7e308}, float64), 0.75), {0.85e308});
  });
}

TEST_CASE("products that fit though products on the way do not, with gradients", "[range]") {
  const Function all = [](const Tensor&x) { return prod(x); }, running = [](const Tensor&x) { return cumprod(x, 0); };
  constexpr Relative each = Relative::to_each;
  each_isa([&] {
    check_numbers(gradient(all, of({1e30, 1e30, 1e-30, 1e-30}, float32), {1}), {1e-30, 1e-30, 1e30, 1e30}, each);
    check_numbers(prod(of({1e300, 1e300, 1e-300, 1e-300}, float64)), {1});
    check_numbers(gradient(all, of({1e300, 1e300, 1e-300, 1e-300}, float64), {1}), {1e-300, 1e-300, 1e300, 1e300},
                  each);
    check_numbers(prod(of({1e-300, 1e-300, 1e300, 1e300, 3, 5}, float64).reshape({3, 2}), 0), {3, 5});
    CHECK(prod(of({1e300, 1e300, 0}, float64)).item() == 0);
    CHECK(prod(of({1e300, 1e300}, float64)).item() == inf);
    CHECK(std::isnan(prod(of({inf, 0}, float64)).item()));
    CHECK(values(gradient(all, of({0x1p900, 0x1p900, 0, 2}, float64), {0x1p-1000})) == Numbers{0, 0, 0x1p801, 0});
  });
  CHECK(values(gradient(running, of({3e20, -1e20, 2e20}, float32), {1, 0, 0})) == Numbers{1, 0, 0});
  CHECK(values(gradient(running, of({3e200, -1e200, 2e200}, float64), {1, 0, 0})) == Numbers{1, 0, 0});
  CHECK(values(gradient(running, of({0x1p900, 0x1p900, 0x1p-900}, float64), {0, 0, 0x1p-1000})) ==
        Numbers{0x1p-1000, 0x1p-1000, 0x1p800});
  check_numbers(cumprod(of({1e-30, 1e-30, 1e30}, float32), 0), {1e-30, 0, 1e-30});
  CHECK(values(cumprod(of({0x1p-900, 0x1p-900, 0x1p900, 0x1p900}, float64), 0)) == Numbers{0x1p-900, 0, 0x1p-900, 1});
  CHECK(values(cumprod(of({3, 0, 5}, float64), 0)) == Numbers{3, 0, 0});
  CHECK(values(gradient(running, of({3, 0, 5}, float64), {1, 10, 100})) == Numbers{1, 3 * (10 + 500), 0});
  CHECK(values(cumprod(of({2, inf, 0}, float64), 0))[1] == inf);
  CHECK(std::isnan(values(cumprod(of({2, inf, 0}, float64), 0))[2]));
}

TEST_CASE("norms have gradients for a huge and a tiny dy", "[range]") {
  const double half = std::sqrt(0.5);
  const Function euclid = [](const Tensor& x) { return norm(x); };
  const Function standard = [](const Tensor& x) { return fit::std(x); };
  each_isa([&] {
    for (const auto& [t, size, dy] : {std::tuple(float32, 1e-10, 1e37), std::tuple(float32, 1e10, 1e-37),
                                      std::tuple(float64, 1e-100, 1e300), std::tuple(float64, 1e100, 1e-300)}) {
      INFO(t << ", numbers of " << size << ", dy " << dy);
      const Tensor x = of({size, -size, 0}, t);
      check_numbers(gradient(euclid, x, {dy}), {dy * half, -dy * half, 0});
      check_numbers(gradient(standard, x, {dy}), {dy / 2, -dy / 2, 0});
    }
    CHECK(std::isinf(values(gradient(euclid, of({3, 4}, float32), {inf}))[0]));
  });
}

TEST_CASE("second derivatives of running products stay in range", "[range]") {
  // L = sum of h dx with dx of cumprod: by x[0] in {a, b, c} it is h[1] (dy[1] + c dy[2]) + h[2] b dy[2].
  const auto second = [](const Numbers& x, const Numbers& dy, const Numbers& h, DType t) {
    const Tensor leaf = of(x, t).requires_grad_(), seed = of(dy, t).requires_grad_();
    const Tensor dx = grad({cumprod(leaf, 0)}, {leaf}, {seed}, create_graph)[0];
    return grad({dx}, {leaf, seed}, {of(h, t)});
  };
  constexpr Relative each = Relative::to_each;
  each_isa([&] {
    auto got = second({1e-30, 1e30, 1e30, 1e-30}, {0, 0, 0, 1}, {1, 0, 0, 0}, float32);
    check_numbers(slice(got[0], 0, 0, 3), {0, 1, 1}, each);
    CHECK(values(got[0])[3] == inf);
    got = second({1e200, 1e200, 1e-300, 1e-90}, {0, 0, 0, 1}, {0, 1, 0, 0}, float64);
    check_numbers(got[0], {0, 0, 1e110, 1e-100}, each);
    got = second({2, 3, 5}, {7, 11, 13}, {17, 19, 23}, float64);
    check_numbers(
        got[0], {19 * (11 + 5 * 13) + 23 * 3 * 13, 17 * (11 + 5 * 13) + 23 * 2 * 13, 17 * 3 * 13 + 19 * 2 * 13}, each);
    check_numbers(got[1], {17, 17 * 3 + 19 * 2, 17 * 3 * 5 + 19 * 2 * 5 + 23 * 2 * 3}, each);
    got = second({0, 0, 5}, {7, 11, 13}, {17, 19, 23}, float64);
    check_numbers(got[0], {19 * (11 + 5 * 13), 17 * (11 + 5 * 13), 0}, each);
  });
}

TEST_CASE("slopes of powers keep their digits where the exponent less 1 is rounded, or the power is no normal number",
          "[range]") {
  const auto slopes = [](double x, double e, DType t) {
    const Tensor base = of({x}, t).requires_grad_(), exponent = of({e}, t).requires_grad_();
    std::vector<Tensor> g = grad({pow(base, exponent)}, {base, exponent});
    g.push_back(gradient([e](const Tensor& x) { return pow(x, e); }, base.detach(), {1}));
    return g;
  };
  each_isa([&] {
    for (const auto& [x, e] : {std::pair(0x1p100, 0x1.999999999999ap-4), std::pair(0x1p-120, 0x1p-30),
                               std::pair(0x1p90, -0x1.999999999999ap-3), std::pair(0x1p20, 1e-9)})
      for (const DType t : {float32, float64}) {
        INFO(x << " to the power of " << e << " in " << t);
        const long double power = t == float32 ? static_cast<float>(e) : e;
        const auto dx = static_cast<double>(power * std::pow(static_cast<long double>(x), power - 1));
        const std::vector<Tensor> got = slopes(x, e, t);
        check_numbers(got[0], {dx});
        check_numbers(got[2], {dx});
      }
    check_numbers(slopes(0x1p-131, 1, float32)[1], {std::ldexp(-131 * std::log(2.), -131)});
    check_numbers(slopes(0x1p-1026, 1, float64)[1], {std::ldexp(-1026 * std::log(2.), -1026)});
  });
}

}  // namespace fit::test::range_test
