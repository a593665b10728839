#include "plot/figures/ticks.hpp"

#include <algorithm>
#include <cmath>

#include "plot/figures/text.hpp"

namespace fit::plot {
std::vector<Tick> round_ticks(double low, double high, int count) {
  const double span = high - low;
  const double power = std::pow(10, std::floor(std::log10(span / count)));
  double step = 10 * power;
  for (const double m : {1.0, 2.0, 2.5, 5.0})
    if (span / (m * power) <= count) {
      step = m * power;
      break;
    }
  // a step of 0.25 needs one more digit than its power of ten
  const bool quarter = std::abs(step / power - 2.5) < 0.1;
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)) + (quarter ? 1 : 0));
  std::vector<Tick> ticks;
  for (double i = std::ceil(low / step - 1e-6); i * step <= high + step * 1e-6; ++i) {
    const double v = i * step + 0.0;  // never -0
    ticks.push_back({v, digits > 6 || std::abs(v) >= 1e6 ? short_number(v, 6) : fixed(v, digits)});
  }
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high) {
  const double decades = std::log10(high / low);
  const int step = std::max(1, static_cast<int>(std::ceil(decades / 8)));
  const std::vector<double> multiples = decades < 1.5 ? std::vector<double>{1, 2, 3, 5} : std::vector<double>{1};
  std::vector<Tick> ticks;
  const auto floor_of = [](double v) { return static_cast<int>(std::floor(v)); };
  for (int e = floor_of(std::log10(low)); e <= floor_of(std::log10(high) + 1e-9); e += step)
    for (const double m : multiples) {
      const double v = m * std::pow(10, e);
      if (v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)) ticks.push_back({v, short_number(v, 6)});
    }
  return ticks.size() < 2 ? round_ticks(low, high, 4) : ticks;
}

std::int64_t label_stride(std::int64_t n, double step, double space) {
  const auto fit_in_space = static_cast<std::int64_t>(std::ceil(space / step));
  const std::int64_t needed = std::max<std::int64_t>({1, fit_in_space, (n + most_labels - 1) / most_labels});
  if (needed == 1) return 1;
  for (const std::int64_t nice : {2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 250, 256, 500, 512, 1000})
    if (nice >= needed) return nice;
  return needed;
}

}  // namespace fit::plot
