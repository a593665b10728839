#include <atomic>
#include <cmath>
#include <random>
#include <vector>

#include "int8/bytes_product.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/variants.hpp"

// Products of rounded rows by int8 weights (core/int8/bytes.hpp): on every instruction set, equal to the reference.
namespace fit::test::byte_products_test {
namespace {

using Random = std::mt19937_64;

// Rows of x rounded by the reference.
struct Rounded {
  std::vector<std::int8_t> bytes;
  std::vector<float> scales;
  std::vector<std::int32_t> sums;
  kernels::ByteRows rows{};
  Rounded(std::int64_t m, std::int64_t k, const float* x, std::int64_t ld, const kernels::Int8Weights& w) {
    const std::int64_t span = kernels::byte_span(k, w), spans = (k + span - 1) / span;
    bytes.resize(static_cast<std::size_t>(m * k)), scales.resize(static_cast<std::size_t>(m * spans));
    sums.resize(scales.size());
    rows = {bytes.data(), scales.data(), sums.data(), k, span, spans};
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t s = 0; s < spans; ++s)
        kernels::reference::round_span(std::min(span, k - s * span), x + i * ld + s * span, &bytes[i * k + s * span],
                                       &scales[i * spans + s], &sums[i * spans + s]);
  }
};

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

struct Weights {
  GuardedBuffer<std::int8_t> data;
  GuardedBuffer<float> scales;
  kernels::Int8Weights w;
  Weights(std::int64_t n, std::int64_t k, std::int64_t group, Random& random, int bits = 8)
      : data((n - 1) * (k + 3) + k * bits / 8),
        scales(drawn<float>(n * ((k + group - 1) / group), 1, between(0.001, 0.01), random)) {
    for (std::int64_t i = 0; i < (n - 1) * (k + 3) + k * bits / 8; ++i)
      data[i] = static_cast<std::int8_t>(random());  // also -128
    w.data = data.data(), w.scales = scales.data(), w.ld = k + 3, w.group = group, w.bits = bits;
  }
};

template <class X, class C>
void check(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t group, bool keeps = false, int bits = 8) {
  INFO(m << " x " << k << " x " << n << ", " << bits << " bits, groups of " << group << ", bytes " << sizeof(X)
         << sizeof(C));
  Random random(static_cast<std::uint64_t>(m * 10007 + n * 101 + k));
  const std::int64_t ld = k + 5, ldc = n + 2;
  GuardedBuffer<X> x((m - 1) * ld + k);
  GuardedBuffer<float> wide((m - 1) * ld + k);
  for (std::int64_t i = 0; i < (m - 1) * ld + k; ++i) {
    x[i] = X(static_cast<float>(between(-2, 2)(random)));
    wide[i] = static_cast<float>(x[i]);
  }
  const Weights weights(n, k, group, random, bits);
  const kernels::Int8Weights& w = weights.w;
  GuardedBuffer<C> c((m - 1) * ldc + n);
  GuardedBuffer<float> bias = drawn<float>(n, 1, between(-1, 1), random);
  const bool biased = group != 64;
  std::vector<std::int8_t> bytes(static_cast<std::size_t>(kernels::byte_panels_bytes(n, k, w)));
  std::vector<float> scales(static_cast<std::size_t>(kernels::byte_panels_scales(n, k, w)));
  if (keeps) {
    kernels::pack_byte_panels(n, k, w, bytes.data());
    kernels::pack_scale_panels(n, k, w, scales.data());
  }
  const kernels::BytePanels kept = kernels::byte_panels(k, w, bytes.data(), scales.data());
  std::vector<std::atomic<int>> done(static_cast<std::size_t>(m * n));
  const auto count = [&](const kernels::Tile& t) {
    for (std::int64_t i = t.row; i < t.row + t.rows; ++i)
      for (std::int64_t j = t.col; j < t.col + t.cols; ++j) ++done[i * n + j];
  };
  kernels::gemm_bytes_parallel<X, C>(
      {m, n, k, x.data(), ld, w, c.data(), ldc, biased ? bias.data() : nullptr, keeps ? &kept : nullptr, count});
  const Rounded rounded(m, k, wide.data(), ld, w);
  CHECK(c.guards_intact());
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const float want = kernels::reference::byte_product(k, rounded.rows.from(i), w, j, biased ? bias[j] : 0);
      wrong += !same(static_cast<float>(c[i * ldc + j]), static_cast<float>(C(want)));
      if (std::is_same_v<C, float>) wrong += done[i * n + j] != 1;
    }
    for (std::int64_t j = n; j < ldc && i + 1 < m; ++j) wrong += !c.untouched(i * ldc + j);
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("products of bytes have the reference's bits on every instruction set", "[gemm][int8]") {
  each_int8_isa([] {
    for (const std::int64_t m : {1, 3, 4, 5, 7, 16, 39})
      for (const std::int64_t n : {1, 33, 64, 130})
        for (const std::int64_t k : {1, 3, 32, 63, 64, 257, 300})
          for (const std::int64_t group : {32, 64, 1000}) {
            check<float, float>(m, n, k, group);
            check<float, float>(m, n, k, group, true);
          }
    for (const std::int64_t m : {2, 9})
      for (const std::int64_t group : {32, 1000}) {
        check<BFloat16, float>(m, 70, 100, group);
        check<BFloat16, BFloat16>(m, 70, 100, group);
      }
    check<float, float>(200, 700, 128, 128);                                      // several tiles
    check<float, float>(2, 4001, 200, 1000);                                      // several parts
    for (const std::int64_t m : {2, 7}) check<float, float>(m, 5, 70000, 70000);  // several spans for one scale
  });
}

TEST_CASE("products of bytes by weights of 4 bits have the reference's bits on every instruction set", "[gemm][int4]") {
  each_int8_isa([] {
    for (const std::int64_t m : {1, 3, 4, 5, 7, 16})
      for (const std::int64_t n : {1, 33, 64, 130})
        for (const std::int64_t k : {32, 64, 320})
          for (const bool keeps : {false, true}) check<float, float>(m, n, k, 32, keeps, 4);
    check<BFloat16, float>(2, 70, 96, 32, false, 4);
    check<BFloat16, BFloat16>(9, 70, 96, 32, true, 4);
    check<float, float>(200, 700, 128, 32, true, 4);  // several tiles
    check<float, float>(1, 4001, 224, 32, true, 4);   // several parts
  });
}

TEST_CASE("a row of bytes has the reference's bits on every instruction set", "[gemm][int8]") {
  constexpr std::int64_t k = 100;
  std::vector<std::vector<float>> rows(8, std::vector<float>(k));
  Random random(5);
  for (auto& row : rows)
    for (float& v : row) v = static_cast<float>(between(-1, 1)(random));
  rows[1].assign(k, 0.0F);
  rows[2][40] = NAN, rows[3][99] = -INFINITY, rows[4][3] = 3e38F;
  for (std::int64_t l = 0; l < k; ++l) {
    rows[5][l] *= 0x1p-101F, rows[6][l] *= 0x1p-98F;
    rows[7][l] = static_cast<float>(l) - 60.5F;  // ties
  }
  rows[7][0] = 127;
  const Weights weights(3, k, 32, random), full(3, k, k, random);
  each_int8_isa([&] {
    for (const auto& row : rows)
      for (const auto& w : {weights.w, full.w}) {
        const Rounded want(1, k, row.data(), k, w);
        const kernels::RoundedRows got(1, k, row.data(), k, w);
        const kernels::ByteRows r = got.rows();
        for (std::int64_t l = 0; l < k; ++l) CHECK(r.bytes[l] == want.bytes[l]);
        for (std::int64_t l = k; l < r.stride; ++l) CHECK(r.bytes[l] == 0);
        for (std::int64_t s = 0; s < r.spans; ++s) {
          CHECK(same(r.scales[s], want.scales[s]));
          CHECK(r.sums[s] == want.sums[s]);
        }
      }
  });
}

// The sums of products are largest here.
TEST_CASE("products of bytes do not overflow", "[gemm][int8]") {
  each_int8_isa([] {
    for (const std::int64_t k : {65536, 65537, 200000})
      for (const int sign : {1, -1}) {
        const std::vector<float> x(static_cast<std::size_t>(k), static_cast<float>(sign));
        for (const int weight : {127, -128}) {
          const std::vector<std::int8_t> data(static_cast<std::size_t>(4 * k), static_cast<std::int8_t>(weight));
          const std::vector<float> scales(4, 1);
          kernels::Int8Weights w;
          w.data = data.data(), w.scales = scales.data(), w.ld = w.group = k;
          for (const std::int64_t m : {1, 5}) {
            std::vector<float> rows, c(static_cast<std::size_t>(4 * m));
            for (std::int64_t i = 0; i < m; ++i) rows.insert(rows.end(), x.begin(), x.end());
            kernels::gemm_bytes_parallel<float, float>({m, 4, k, rows.data(), k, w, c.data(), 4});
            for (const float v : c) CHECK(v == Approx(static_cast<double>(weight * sign) * static_cast<double>(k)));
          }
        }
      }
  });
}

}  // namespace fit::test::byte_products_test
