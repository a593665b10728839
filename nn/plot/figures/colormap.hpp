#pragma once
#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>

#include "fit/plot.hpp"

namespace fit::plot {

struct Rgb {
  std::uint8_t r, g, b;
  std::string hex() const;  // "#440154"
};

constexpr Rgb rgb(std::uint32_t hex) {
  return {static_cast<std::uint8_t>(hex >> 16), static_cast<std::uint8_t>(hex >> 8), static_cast<std::uint8_t>(hex)};
}

inline constexpr int palette_size = 255;  // an indexed PNG has 256 colours; the last one marks non-finite values

const std::array<Rgb, palette_size>& palette(Colormap map);

inline constexpr Colormap weights_map = Colormap::blues;

// The map that replaces this one on a dark ground.
inline Colormap in_dark(Colormap map) {
  return map == Colormap::blues ? Colormap::night : map == Colormap::rdbu ? Colormap::dusk : map;
}

inline bool diverges(Colormap map) { return map == Colormap::rdbu || map == Colormap::dusk; }

// Whether dark text reads better than white text on this colour.
bool is_light(Rgb c);

// Whether text for this stream may have colours.
bool has_colors(const std::ostream& out, Colors colors = Colors::automatic);

}  // namespace fit::plot
