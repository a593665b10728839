#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "fit/plot.hpp"

namespace fit::plot {

struct Rgb {
  std::uint8_t r, g, b;
  std::string hex() const;  // "#440154"
};

inline constexpr Rgb not_finite_color{0xd0, 0xd4, 0xd9};
inline constexpr int palette_size = 255;  // an indexed PNG has 256 colours: the last is for what is not finite

const std::array<Rgb, palette_size>& palette(Colormap map);

// Whether dark text reads better than white text on this colour.
bool is_light(Rgb c);

}  // namespace fit::plot
