#include "kernels/simd/fused.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

#include "support/catch.hpp"

// Without instructions for it, x y + z is computed in software. It equals the C library's fma() for every input.
#if defined(__SSE2__) && !defined(__FMA__)
namespace fit::test::fused_test {
namespace {

template <class T>
struct Draws {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  using Limits = std::numeric_limits<T>;
  static constexpr int digits = Limits::digits;

  // Of all bit patterns, of few digits, next to powers of two, of any size and near 1, and special numbers.
  T number() {
    static const T special[] = {0,
                                1,
                                Limits::infinity(),
                                Limits::quiet_NaN(),
                                Limits::denorm_min(),
                                Limits::min(),
                                Limits::max(),
                                std::ldexp(T(1), Limits::min_exponent / 2),
                                std::ldexp(T(3), (Limits::min_exponent - digits) / 2)};
    const int range = pick(2) ? 2 * digits : Limits::max_exponent - 2;
    const T power = std::ldexp(T(pick(2) ? 1 : -1), pick(2 * range) - range);
    const Bits bits = static_cast<Bits>(random());
    T any;
    std::memcpy(&any, &bits, sizeof any);
    switch (pick(6)) {
      case 0:
        return any;
      case 1:
        return (pick(2) ? 1 : -1) * special[pick(9)];
      case 2:
        return power * static_cast<T>(pick(64));
      case 3:
        return power * (1 + static_cast<T>(pick(8)) * Limits::epsilon());
      case 4:
        return power * (1 - static_cast<T>(pick(8)) * Limits::epsilon() / 2);
      default:
        return power * (1 + static_cast<T>(bits >> 9) * std::ldexp(T(1), 9 - 8 * int{sizeof(T)}));
    }
  }
  // What cancels x y, is the most or the least beside it, puts the sum next to the middle between two numbers, or any.
  T addend(T x, T y) {
    const T p = x * y;
    switch (pick(4)) {
      case 0:
        return -p;
      case 1:
        return std::ldexp(p, pick(5 * digits) - 5 * digits / 2);
      case 2:
        return std::isfinite(p) && p != 0 ? std::ldexp(T(1), std::ilogb(p) + pick(5 * digits) - 5 * digits / 2) : p;
      default:
        return number();
    }
  }
  int pick(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

  std::mt19937_64 random{1};
};

template <class Register, class T>
void check_fused(int draws) {
  constexpr std::size_t size = sizeof(Register) / sizeof(T);
  Draws<T> draw;
  int wrong = 0;
  for (int i = 0; i < draws; ++i) {
    alignas(16) T x[size], y[size], z[size], sum[size];
    for (std::size_t l = 0; l < size; ++l) x[l] = draw.number(), y[l] = draw.number(), z[l] = draw.addend(x[l], y[l]);
    Register a, b, c;
    std::memcpy(&a, x, sizeof a), std::memcpy(&b, y, sizeof b), std::memcpy(&c, z, sizeof c);
    const Register all = kernels::fused(a, b, c);
    std::memcpy(sum, &all, sizeof sum);
    for (std::size_t l = 0; l < size; ++l) {
      const T expected = std::fma(x[l], y[l], z[l]);
      if ((std::isnan(expected) && std::isnan(sum[l])) || std::memcmp(&expected, &sum[l], sizeof expected) == 0)
        continue;
      if (wrong++ == 0)
        UNSCOPED_INFO(x[l] << " * " << y[l] << " + " << z[l] << " = " << expected << ", not " << sum[l]);
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("a product and a sum are rounded once without instructions for it", "[fused]") {
  check_fused<__m128, float>(300000);
  check_fused<__m128d, double>(300000);
}

}  // namespace fit::test::fused_test
#endif
