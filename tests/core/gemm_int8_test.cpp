#include "matmul/gemm_int8.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/variants.hpp"

// Products with weights of 8 bits, on every instruction set, at odd sizes and off any alignment.
namespace fit::test::gemm_int8_test {
namespace {

template <class X, class C>
void check(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t group) {
  using R = Rounded<float>;
  INFO(m << " x " << k << " x " << n << ", groups of " << group << ", bytes " << sizeof(X) << sizeof(C));
  std::mt19937_64 random(static_cast<std::uint64_t>(m * 10007 + n * 101 + k));
  const std::int64_t ld = k + 3, groups = k == 0 ? 0 : (k + group - 1) / group;
  GuardedBuffer<X> x(m * ld);
  for (std::int64_t i = 0; i < m * ld; ++i) x[i] = X(static_cast<float>(between(-2, 2)(random)));
  GuardedBuffer<std::int8_t> data(n * ld);
  for (std::int64_t i = 0; i < n * ld; ++i) data[i] = static_cast<std::int8_t>(random() % 255 - 127);
  GuardedBuffer<float> scales = drawn<float>(n * groups, 1, between(0.001, 0.01), random);
  kernels::Int8Weights w;
  w.data = data.data(), w.scales = scales.data(), w.ld = ld, w.group = group;
  GuardedBuffer<C> c((m - 1) * (n + 2) + n);
  GuardedBuffer<float> bias = drawn<float>(n, 1, between(-1, 1), random);
  const bool biased = group != 64;
  kernels::gemm_int8_parallel(m, n, k, x.data(), ld, w, c.data(), n + 2, biased ? bias.data() : nullptr);
  Worst worst;
  bool kept = c.guards_intact();
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      Sum<float> sum;
      for (std::int64_t l = 0; l < k; ++l) {
        const float number = data[j * ld + l], scale = scales[j * groups + l / group];
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
  each_bfloat16_isa([] {
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

}  // namespace fit::test::gemm_int8_test
