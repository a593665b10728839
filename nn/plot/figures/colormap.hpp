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
  std::uint32_t number() const { return std::uint32_t{r} << 16 | std::uint32_t{g} << 8 | b; }
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

// Whether black text has more contrast to this colour than white text. The contrast is then 4.58 or more (WCAG 2.1).
bool is_light(Rgb c);

// The ink of a number on a cell of this colour: black or white. The script of pages has the same
// (page/shared/colors.js).
inline Rgb ink_on(Rgb cell) { return is_light(cell) ? rgb(0x000000) : rgb(0xffffff); }

// Whether text for this stream may have colours.
bool has_colors(const std::ostream& out, Colors colors = Colors::automatic);

}  // namespace fit::plot
