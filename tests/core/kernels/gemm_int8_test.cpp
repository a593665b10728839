#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <vector>

#include "int8/product.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/variants.hpp"

// Products with weights of 8 and 4 bits, on every instruction set, at odd sizes and off any alignment.
namespace fit::test::gemm_int8_test {
namespace {

template <class X, class C>
void check(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t group, int bits = 8) {
  using R = Rounded<float>;
  INFO(m << " x " << k << " x " << n << ", " << bits << " bits, groups of " << group << ", bytes " << sizeof(X)
         << sizeof(C));
  std::mt19937_64 random(static_cast<std::uint64_t>(m * 10007 + n * 101 + k));
  const std::int64_t ld = k + 3, groups = k == 0 ? 0 : (k + group - 1) / group;
  GuardedBuffer<X> x(m * ld);
  for (std::int64_t i = 0; i < m * ld; ++i) x[i] = X(static_cast<float>(between(-2, 2)(random)));
  GuardedBuffer<std::int8_t> data(n * ld);
  for (std::int64_t i = 0; i < n * ld; ++i) data[i] = static_cast<std::int8_t>(random() % 255 - 127);
  GuardedBuffer<float> scales = drawn<float>(n * groups, 1, between(0.001, 0.01), random);
  kernels::Int8Weights w;
  w.data = data.data(), w.scales = scales.data(), w.ld = ld, w.group = group, w.bits = bits;
  GuardedBuffer<C> c((m - 1) * (n + 2) + n);
  GuardedBuffer<float> bias = drawn<float>(n, 1, between(-1, 1), random);
  const bool biased = group != 64;
  std::vector<std::atomic<int>> done(static_cast<std::size_t>(m * n));
  const auto count = [&](const kernels::Tile& t) {
    for (std::int64_t i = t.row; i < t.row + t.rows; ++i)
      for (std::int64_t j = t.col; j < t.col + t.cols; ++j) ++done[i * n + j];
  };
  kernels::gemm_int8_parallel<X, C>(
      {m, n, k, x.data(), ld, w, c.data(), n + 2, biased ? bias.data() : nullptr, nullptr, count});
  if (std::is_same_v<C, float> && std::is_same_v<X, float>)
    CHECK(std::all_of(done.begin(), done.end(), [](const auto& times) { return times == 1; }));
  Worst worst;
  bool kept = c.guards_intact();
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      Sum<float> sum;
      for (std::int64_t l = 0; l < k; ++l) {
        const auto number = static_cast<float>(w.at(j, l));
        const float scale = scales[j * groups + l / group];
        R weight = R(number) * R(scale);
        if (std::is_same_v<X, BFloat16> && m > kernels::gemv_max_m)
          weight = R(static_cast<float>(BFloat16(number * scale)));
        sum.add(R(static_cast<float>(x[i * ld + l])) * weight);
      }
      R want = sum.in_chains();
      if (biased) want = want + R(bias[j]);
      if (std::is_same_v<C, BFloat16>) want.error += 0x1p-8L * (std::abs(want.value) + want.error);
      worst.add(i * n + j, static_cast<float>(c[i * (n + 2) + j]), want);
    }
    for (std::int64_t j = n; j < n + 2 && i + 1 < m; ++j) kept = kept && c.untouched(i * (n + 2) + j);
  }
  INFO(worst);
  CHECK(kept);
  CHECK(worst.within_bounds());
}

}  // namespace

TEST_CASE("products with weights of 8 bits, on every instruction set", "[gemm][int8]") {
  each_int8_isa([] {
    for (const std::int64_t m : {1, 2, 3, 4, 9})
      for (const std::int64_t n : {1, 7, 33, 130})
        for (const std::int64_t k : {0, 1, 15, 33, 64, 257})
          for (const std::int64_t group : {32, 64, 128, 1000}) {
            check<float, float>(m, n, k, group);
            check<BFloat16, float>(m, n, k, group);
            check<BFloat16, BFloat16>(m, n, k, group);
          }
    check<float, float>(6, 2100, 520, 128);  // in several blocks
    check<BFloat16, BFloat16>(6, 2100, 520, 128);
    check<BFloat16, BFloat16>(2, 400, 400, 128);  // few rows in several tiles
  });
  check<float, float>(400, 70, 170, 128);  // several tiles of rows
}

TEST_CASE("products with weights of 4 bits, on every instruction set", "[gemm][int4]") {
  each_int8_isa([] {
    for (const std::int64_t m : {1, 2, 3, 4, 9})
      for (const std::int64_t n : {1, 7, 33, 130})
        for (const std::int64_t k : {0, 32, 64, 288}) {
          check<float, float>(m, n, k, 32, 4);
          check<BFloat16, float>(m, n, k, 32, 4);
          check<BFloat16, BFloat16>(m, n, k, 32, 4);
        }
    check<float, float>(6, 2100, 512, 32, 4);  // in several blocks
  });
}

namespace {

// x [k] times weights [n, k] with scales of 1.
std::vector<float> row_times(const std::vector<float>& x, const std::vector<std::int8_t>& weights) {
  const auto k = static_cast<std::int64_t>(x.size()), n = static_cast<std::int64_t>(weights.size()) / k;
  const std::vector<float> scales(static_cast<std::size_t>(n), 1.0F);
  std::vector<float> c(static_cast<std::size_t>(n));
  kernels::Int8Weights w;
  w.data = weights.data(), w.scales = scales.data(), w.ld = w.group = k;
  kernels::gemm_int8_parallel<float, float>({1, n, k, x.data(), k, w, c.data(), n});
  return c;
}

std::vector<std::int8_t> random_weights(std::int64_t count, std::mt19937_64& random) {
  std::vector<std::int8_t> weights(static_cast<std::size_t>(count));
  for (std::int8_t& w : weights) w = static_cast<std::int8_t>(random() % 255 - 127);
  return weights;
}

}  // namespace

// A row of x as whole numbers (int8/digits.hpp) loses no more than the rounding of the result, for any spread of x.
TEST_CASE("a row times weights of 8 bits is as exact as float allows, for any spread of the row", "[gemm][int8]") {
  std::mt19937_64 random(3);
  each_int8_isa([&] {
    for (const double spread : {0.0, 1.0, 3.0, 10.0, 40.0})
      for (const std::int64_t k : {1, 63, 64, 65, 768}) {
        INFO("e^+-" << spread << ", k = " << k);
        constexpr std::int64_t n = 37;
        std::vector<float> x(static_cast<std::size_t>(k));
        for (float& v : x) v = static_cast<float>(between(-1, 1)(random) * std::exp(between(-spread, spread)(random)));
        const std::vector<std::int8_t> weights = random_weights(n * k, random);
        const std::vector<float> c = row_times(x, weights);
        for (std::int64_t j = 0; j < n; ++j) {
          long double want = 0, size = 0;
          for (std::int64_t l = 0; l < k; ++l) {
            const long double part = static_cast<long double>(x[l]) * weights[j * k + l];
            want += part, size += std::abs(part);
          }
          CHECK(std::abs(c[j] - want) <= 0x1p-21L * size);
        }
      }
  });
}

TEST_CASE("a row times weights of 8 bits keeps small numbers beside a large one, infinity and NaN", "[gemm][int8]") {
  constexpr std::int64_t n = 9, k = 600;
  std::mt19937_64 random(4);
  std::vector<std::int8_t> weights = random_weights(n * k, random);
  for (std::int64_t j = 0; j < n; ++j) weights[j * k + 5] = 0;
  each_int8_isa([&] {
    std::vector<float> x(k, 1.0F);
    const std::vector<float> without = row_times(x, weights);
    for (std::int64_t j = 0; j < n; ++j) {
      int sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += l == 5 ? 0 : weights[j * k + l];
      CHECK(without[j] == static_cast<float>(sum));
    }
    for (const float large : {1e3F, 1e10F, 1e30F, 3e38F}) {
      x[5] = large;
      CHECK(row_times(x, weights) == without);
    }
    for (const float special : {INFINITY, NAN}) {
      x[5] = special;
      for (const float c : row_times(x, weights)) CHECK(std::isnan(c));
    }
    CHECK(row_times(std::vector<float>(k, 0.0F), weights) == std::vector<float>(n, 0.0F));
    const std::vector<float> tiny(k, 0x1p-149F);
    for (const float c : row_times(tiny, weights)) CHECK(std::abs(c) < 0x1p-120F);
  });
}

// The sums of products of bytes are largest here: they fill 32 bits.
TEST_CASE("a long row times weights of 8 bits does not overflow", "[gemm][int8]") {
  each_int8_isa([] {
    for (const std::int64_t k : {65536, 65537, 200000})
      for (const int sign : {1, -1})
        for (const double x : {0x3f7f7f80p-30, 1.0}) {  // the first: three digits are -128
          const std::vector<float> row(static_cast<std::size_t>(k), static_cast<float>(sign * x));
          const std::vector<float> c =
              row_times(row, std::vector<std::int8_t>(static_cast<std::size_t>(4 * k), std::int8_t{127}));
          for (const float v : c) CHECK(v == Approx(127.0 * static_cast<double>(k) * sign * x).epsilon(1e-4));
        }
  });
}

}  // namespace fit::test::gemm_int8_test
