#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fit::plot {

// Round numbers in low … high, about `count` of them, with as many digits as they need.
struct Tick {
  double value;
  std::string label;
};
std::vector<Tick> round_ticks(double low, double high, int count);
// Powers of ten, with their multiples by 2 and 5 where there are few of them.
std::vector<Tick> log_ticks(double low, double high);

// Every how many-th of n labels is drawn if each needs `space` and has `step`.
inline constexpr std::int64_t most_labels = 64;
std::int64_t label_stride(std::int64_t n, double step, double space);

}  // namespace fit::plot
