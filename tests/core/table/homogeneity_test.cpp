#include <cmath>
#include <vector>

#include "fit/detail/function_ref.hpp"
#include "support/catch.hpp"
#include "support/tables/op_table.hpp"
#include "support/variants.hpp"

// f(2^k x) = 2^(d k) f(x) for the rows of the table that say so, and the same for gradients, wherever a type holds the
// numbers. Scaling by a power of two is exact: whatever differs has left the type's range on the way.
namespace fit::test::homogeneity_test {
namespace {

using Values = std::vector<Tensor>;

struct Type {
  DType dtype;
  int lowest, highest;  // exponents of normal numbers
  double unit;          // of rounding
};
const Type types[] = {{float32, -126, 127, 0x1p-24}, {float64, -1022, 1023, 0x1p-53}, {bfloat16, -126, 127, 0x1p-8}};

// Whether all numbers of x times 2^k are 0 or normal numbers.
bool holds(const Type& t, const Tensor& x, int k) {
  for (const double v : values(x))
    if (v != 0 && (std::ilogb(v) + k < t.lowest || std::ilogb(v) + k > t.highest)) return false;
  return true;
}

Tensor scaled(const Tensor& x, int k) {
  Tensor y = x.to(float64).clone();
  for (double& v : y.edit<double>()) v = std::ldexp(v, k);
  return y.to(x.dtype());
}

// The floating outputs, then the gradients, with fixed cotangents.
Values outputs_and_gradients(const OpRow& row, const Values& in) {
  Values x, outputs, seeds;
  for (const Tensor& v : in) x.push_back(v.clone().requires_grad_());
  for (const Tensor& y : row.f(x))
    if (is_floating(y.dtype())) outputs.push_back(y);
  std::mt19937_64 random(3);
  for (const Tensor& y : outputs) seeds.push_back(random_tensor(y.shape(), domain::nonzero, random, y.dtype()));
  Values all = grad(outputs, x, seeds, allow_unused);
  all.insert(all.begin(), outputs.begin(), outputs.end());
  for (Tensor& t : all)
    if (t.defined()) t = t.detach();
  return all;
}

// Checks that `got` is 2^k `plain`. The tolerance counts from the largest number: sums may cancel. Where the largest
// does not fit the type, only NaN is an error.
void check_scaled(const Type& t, const Tensor& got, const Tensor& plain, int k) {
  const std::vector<double> before = values(plain), after = values(got);
  double largest = 0;
  for (const double v : before) largest = std::max(largest, std::abs(v));
  const int exponent = largest == 0 ? 0 : std::ilogb(largest) + k;
  for (std::size_t i = 0; i < before.size(); ++i) {
    INFO("element " << i << ": " << after[i] << " for " << before[i] << " times 2^" << k);
    if (exponent > t.lowest && exponent < t.highest)
      CHECK(std::abs(after[i] - std::ldexp(before[i], k)) <= 8 * t.unit * std::ldexp(largest, k));
    else
      CHECK_FALSE(std::isnan(after[i]));
  }
}

void check_row(const OpRow& row, const OpRow::Scaling& scaling, const std::vector<Shape>& set, const Type& t) {
  std::mt19937_64 random(17);
  Values in;
  for (std::size_t i = 0; i < set.size(); ++i) in.push_back(random_tensor(set[i], row.domain_of(i), random, t.dtype));
  const auto scales = [&](std::size_t i) {
    return std::count(scaling.inputs.begin(), scaling.inputs.end(), static_cast<int>(i)) > 0;
  };
  const Values plain = outputs_and_gradients(row, in);
  const std::size_t outputs = plain.size() - in.size();
  for (int k = t.lowest - 8; k <= t.highest + 1; k += t.dtype == float64 ? 23 : 3) {
    INFO("x times 2^" << k);
    Values x = in;
    bool fits = true;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!scales(i)) continue;
      fits = fits && holds(t, in[i], k);
      x[i] = scaled(in[i], k);
    }
    if (!fits) continue;
    const Values all = outputs_and_gradients(row, x);
    REQUIRE(all.size() == plain.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      INFO("result " << i << " (outputs, then gradients)");
      if (!plain[i].defined()) continue;
      const int degree = i >= outputs && scales(i - outputs) ? scaling.degree - 1 : scaling.degree;
      check_scaled(t, all[i], plain[i], degree * k);
    }
  }
}

}  // namespace

TEST_CASE("every homogeneous op: f(2^k x) = 2^(d k) f(x), with gradients, over the whole range", "[ops][range]") {
  each_row([](const OpRow& row) {
    if (row.scalings.empty()) return;
    each_isa([&] {
      for (const OpRow::Scaling& scaling : row.scalings)
        for (const auto& set : row.shapes)
          for (const Type& t : types) {
            INFO(t.dtype << ", degree " << scaling.degree << ", the first shape is " << set[0]);
            check_row(row, scaling, set, t);
          }
    });
  });
}

TEST_CASE("norms of rows have gradients that sum to 0, and are orthogonal to x, at every size", "[ops][range]") {
  const auto check = [](const Type& t, FunctionRef<Tensor(const Tensor&)> f, bool centred) {
    std::mt19937_64 random(5);
    const Tensor x = random_tensor({3, 33}, domain::real, random, t.dtype),
                 dy = random_tensor({3, 33}, domain::real, random, t.dtype);
    for (int k = t.lowest; k <= t.highest - 1; k += 7) {
      const Tensor leaf = scaled(x, k).requires_grad_();
      const Tensor dx = grad({f(leaf)}, {leaf}, {dy})[0].to(float64), size = norm(dx, 1, -1);
      INFO("x times 2^" << k << ", gradient " << dx);
      if (-k < t.lowest + 12 || -k > t.highest - 12) continue;  // the gradient isn't a normal number
      CHECK(all(size > 0).item<bool>());
      if (centred) CHECK(all(abs(sum(dx, -1)) <= 8 * t.unit * size).item<bool>());
      CHECK(all(abs(sum(dx * x.to(float64), -1)) <= 32 * t.unit * size).item<bool>());
    }
  };
  each_isa([&] {
    for (const Type& t : {types[0], types[1]}) {
      INFO(t.dtype);
      check(
          t, [](const Tensor& x) { return layer_norm(x, {}, {}, 0); }, true);
      check(
          t, [](const Tensor& x) { return group_norm(x, 3, {}, {}, 0); }, false);
      check(
          t, [](const Tensor& x) { return rms_norm(x, {}, 0); }, false);
      check(
          t, [](const Tensor& x) { return normalize(x, 2, -1, 5e-324); }, false);
    }
  });
}

}  // namespace fit::test::homogeneity_test
