#include "support/oracles/error_units.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

// Compiled for speed: tests/long accuracy compares billions of numbers.
namespace fit::test {
namespace {

// 2^floor(log2 v), for v that are 0, or normal numbers.
double power_of_two(double v) {
  std::uint64_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  bits &= std::uint64_t{0x7ff} << 52;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}
long double power_of_two(long double v) { return v == 0 ? 0 : std::ldexp(1.L, std::ilogb(v)); }

// got and want, bounded, and the unit of want.
template <class T>
struct Pair {
  using R = Exact<T>;
  using Limits = std::numeric_limits<T>;

  static R bounded(R v) {
    const R top = R(Limits::max()) / (2 - R(Limits::epsilon())) * 2;  // a power of two
    return std::min(std::max(v, -top), top);
  }

  Pair(T got, R want) : off(std::abs(bounded(got) - bounded(want))), size(std::abs(bounded(want))) {}
  R unit() const { return std::max(power_of_two(size), R(Limits::min())) * R(Limits::epsilon()); }

  R off, size;
};

template <class T>
double units(T got, Exact<T> want) {
  if (std::isnan(got) || std::isnan(want))
    return std::isnan(got) && std::isnan(want) ? 0 : std::numeric_limits<double>::infinity();
  const Pair<T> pair(got, want);
  return static_cast<double>(pair.off / pair.unit());
}

// Whether an error may be larger than `most` units. Without branches, so that it is computed in vectors.
template <class T>
bool any_above(const T* got, const Exact<T>* want, std::int64_t n, double most) {
  int above = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const Pair<T> pair(got[i], want[i]);
    const bool nan = got[i] != got[i], wants_nan = want[i] != want[i];
    above |= (nan != wants_nan) | (!nan & !(pair.off <= Exact<T>(most) * pair.unit()));
  }
  return above != 0;
}

}  // namespace

template <class T>
void keep_worst(const T* x, const T* got, const Exact<T>* want, std::int64_t n, Range range, WorstUnits& worst) {
  constexpr std::int64_t block = 256;
  for (std::int64_t from = 0; from < n; from += block) {
    const std::int64_t end = std::min(from + block, n);
    if (!any_above(got + from, want + from, end - from, worst.units)) continue;
    for (std::int64_t i = from; i < end; ++i) {
      if (range == Range::normal && std::abs(want[i]) < std::numeric_limits<T>::min()) continue;
      const double off = units(got[i], want[i]);
      if (!(off <= worst.units))
        worst = {off, static_cast<double>(x[i]), static_cast<double>(got[i]), static_cast<double>(want[i])};
    }
  }
}
template void keep_worst(const float*, const float*, const double*, std::int64_t, Range, WorstUnits&);
template void keep_worst(const double*, const double*, const long double*, std::int64_t, Range, WorstUnits&);

}  // namespace fit::test
