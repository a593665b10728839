#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <utility>
#include <vector>

#include "kernels/simd/reference.hpp"

// Bounds for the difference between a kernel and its reference.
namespace fit::test {

/// |got - want| in units in the last place of want; infinity if only one of the two is NaN or infinite.
template <class T>
double units_off(T got, long double want) {
  const T rounded = static_cast<T>(want);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (std::isnan(got) || std::isnan(rounded)) return std::isnan(got) && std::isnan(rounded) ? 0 : infinity;
  if (std::isinf(got) || std::isinf(rounded)) return got == rounded ? 0 : infinity;
  const T size = std::abs(rounded), below = std::nextafter(size, T{0});
  const T unit = size == 0 ? std::numeric_limits<T>::denorm_min() : size - below;
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) / unit);
}

/// A number of a reference in long double, with a bound for the rounding errors of a kernel in T. Every operation
/// passes on the errors of its operands and adds half a unit in the last place (running error analysis; Higham 2002,
/// section 3.3). A kernel with the same formula stays within the bound, fused or not.
template <class T>
struct Rounded {
  long double value = 0, error = 0;

  Rounded() = default;
  Rounded(T exact) : value(exact) {}
  Rounded(long double v, long double e) : value(v), error(e) {}

  /// The result of an operation: its error is `handed_on`, plus a rounding within `units` in the last place.
  static Rounded of(long double v, long double handed_on, double units = 0.5) {
    constexpr long double epsilon = std::numeric_limits<T>::epsilon(), least = std::numeric_limits<T>::denorm_min();
    // The factor allows for the rounding of long double.
    return {v, handed_on + static_cast<long double>(units) * (std::abs(v) * epsilon * 1.001L + least)};
  }

  friend bool operator==(const Rounded& a, const Rounded& b) { return a.value == b.value; }
  friend bool operator<(const Rounded& a, const Rounded& b) { return a.value < b.value; }
  friend Rounded operator+(const Rounded& a, const Rounded& b) { return of(a.value + b.value, a.error + b.error); }
  friend Rounded operator-(const Rounded& a, const Rounded& b) { return of(a.value - b.value, a.error + b.error); }
  friend Rounded operator-(const Rounded& a) { return {-a.value, a.error}; }
  friend Rounded operator*(const Rounded& a, const Rounded& b) {
    return of(a.value * b.value, a.error * std::abs(b.value) + b.error * std::abs(a.value) + a.error * b.error);
  }
  friend Rounded operator/(const Rounded& a, const Rounded& b) {
    const long double q = a.value / b.value;
    return of(q, (a.error + std::abs(q) * b.error) / (std::abs(b.value) - b.error));
  }
};

template <class T>
bool isnan(const Rounded<T>& a) {
  return std::isnan(a.value);
}
template <class T>
Rounded<T> abs(const Rounded<T>& a) {
  return {std::abs(a.value), a.error};
}
template <class T>
Rounded<T> max(const Rounded<T>& a, const Rounded<T>& b) {
  return {std::max(a.value, b.value), std::max(a.error, b.error)};
}
template <class T>
Rounded<T> sign(const Rounded<T>& a) {
  const auto one = static_cast<long double>((a.value > 0) - (a.value < 0));
  return {one, a.error > 0 && std::abs(a.value) <= a.error ? 2.L : 0.L};
}
template <class T>
Rounded<T> sqrt(const Rounded<T>& a) {
  const long double root = std::sqrt(a.value), least = std::sqrt(std::max(a.value - a.error, 0.L));
  return Rounded<T>::of(root, a.error == 0 ? 0 : std::min(std::sqrt(a.error), a.error / (root + least)));
}
/// With `flushes`, results below the smallest normal number may also be 0.
template <class T>
Rounded<T> exp(const Rounded<T>& a, double units, bool flushes = false) {
  const long double e = std::exp(a.value);
  if (e == 0) return {};
  auto r = Rounded<T>::of(e, a.error == 0 ? 0 : e * std::expm1(a.error), units);
  if (flushes && e < 2 * static_cast<long double>(std::numeric_limits<T>::min())) r.error += e;
  return r;
}
/// The same with the units of math.hpp and with flushing.
template <class T>
Rounded<T> exp(const Rounded<T>& a) {
  return exp(a, sizeof(T) == 4 ? 3 : 2, true);
}
template <class T>
Rounded<T> log(const Rounded<T>& a, double units) {
  return Rounded<T>::of(std::log(a.value), a.error == 0 ? 0 : a.error / (a.value - a.error), units);
}
template <class T>
Rounded<T> log(const Rounded<T>& a) {
  return log(a, 1);
}
template <class T>
Rounded<T> log1p(const Rounded<T>& a) {
  return Rounded<T>::of(std::log1p(a.value), a.error == 0 ? 0 : a.error / (1 + a.value - a.error), 1);
}
template <class T>
Rounded<T> expm1(const Rounded<T>& a) {
  return Rounded<T>::of(std::expm1(a.value), a.error == 0 ? 0 : std::exp(a.value) * std::expm1(a.error), 3);
}
template <class T>
Rounded<T> sigmoid(const Rounded<T>& a, double units) {
  const long double s = 1 / (1 + std::exp(-a.value)), slope = s / (1 + std::exp(a.value));
  return Rounded<T>::of(s, slope == 0 ? 0 : slope * std::expm1(a.error), units);
}

/// A sum of terms in any order.
template <class T>
struct Sum {
  long double value = 0, size = 0, error = 0;
  std::int64_t terms = 0;

  void add(const Rounded<T>& t) {
    value += t.value;
    size += std::abs(t.value) + t.error;
    error += t.error;
    ++terms;
  }
  /// The sum for additions in this number of parallel chains.
  Rounded<T> in_chains(double chains = 1) const {
    constexpr long double half = std::numeric_limits<T>::epsilon() / 2;
    const auto additions = static_cast<long double>(static_cast<double>(terms) / chains + 6);
    return {value, error + additions * (half * size * 1.001L + std::numeric_limits<T>::denorm_min())};
  }
};
template <class T>
Rounded<T> sum(const std::vector<Rounded<T>>& terms, double chains = 1) {
  Sum<T> s;
  for (const Rounded<T>& t : terms) s.add(t);
  return s.in_chains(chains);
}

/// Sets the number of parallel chains in sums of references during its lifetime.
class InChains {
 public:
  explicit InChains(double chains) : before_(std::exchange(now, chains)) {}
  ~InChains() { now = before_; }
  InChains(const InChains&) = delete;
  InChains& operator=(const InChains&) = delete;
  static inline double now = 1;

 private:
  double before_;
};

/// The max difference between the results of a kernel and its reference, as a fraction of the rounding bound.
struct Worst {
  double off = 0;
  std::int64_t at = -1;
  double got = 0, want = 0;

  template <class T>
  void add(std::int64_t i, T result, const Rounded<T>& plain) {
    const T nearest = static_cast<T>(plain.value);
    if (result == nearest || (std::isnan(result) && std::isnan(nearest))) return;
    const auto share = static_cast<double>(std::abs(static_cast<long double>(result) - plain.value) / plain.error);
    if (share <= off) return;  // NaN does not return
    off = std::isfinite(plain.error) && std::isfinite(share) ? share : std::numeric_limits<double>::infinity();
    at = i, got = static_cast<double>(result), want = static_cast<double>(plain.value);
  }
  bool within_bounds() const { return off <= 1; }
  friend std::ostream& operator<<(std::ostream& out, const Worst& w) {
    return out << w.off << " of the bound at " << w.at << ": " << w.got << " in place of " << w.want;
  }
};

}  // namespace fit::test

namespace fit::kernels::reference {

/// Sums in references, for any order of additions.
template <class T>
struct Adder<test::Rounded<T>> {
  test::Sum<T> sum;
  void add(const test::Rounded<T>& n) { sum.add(n); }
  test::Rounded<T> result() const { return sum.in_chains(test::InChains::now); }
};

}  // namespace fit::kernels::reference
