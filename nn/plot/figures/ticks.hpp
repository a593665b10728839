#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fit::plot {

// About `count` round numbers in low … high, with the digits that they need.
struct Tick {
  double value;
  std::string label;
};
std::vector<Tick> round_ticks(double low, double high, int count);
// Powers of ten, and their multiples by 2 and 5 if there are few.
std::vector<Tick> log_ticks(double low, double high);

// k such that every k-th of n labels is drawn; each label needs `space`, and labels are `step` apart.
inline constexpr std::int64_t most_labels = 64;
std::int64_t label_stride(std::int64_t n, double step, double space);

}  // namespace fit::plot
