#include "plot/figures/colormap.hpp"

#include <cmath>
#include <vector>

namespace fit::plot {
namespace {

using Palette = std::array<Rgb, palette_size>;

// Interpolates linearly between equally spaced anchors.
Palette interpolate(const std::vector<std::uint32_t>& anchors) {
  Palette p;
  for (int i = 0; i < palette_size; ++i) {
    const double at = static_cast<double>(i) / (palette_size - 1) * static_cast<double>(anchors.size() - 1);
    const auto low = std::min(static_cast<std::size_t>(at), anchors.size() - 2);
    const double t = at - static_cast<double>(low);
    const auto channel = [&](int shift) {
      const double a = anchors[low] >> shift & 0xff, b = anchors[low + 1] >> shift & 0xff;
      return static_cast<std::uint8_t>(std::lround(a + (b - a) * t));
    };
    p[i] = {channel(16), channel(8), channel(0)};
  }
  return p;
}

}  // namespace

std::string Rgb::hex() const {
  static const char digits[] = "0123456789abcdef";
  std::string s = "#";
  for (const std::uint8_t c : {r, g, b}) {
    s += digits[c >> 4];
    s += digits[c & 15];
  }
  return s;
}

const Palette& palette(Colormap map) {
  // In the order of Colormap. viridis: Smith and van der Walt, CC0. Blues and RdBu: ColorBrewer, Cynthia Brewer,
  // Apache 2.0.
  static const Palette palettes[] = {
      interpolate({0x440154, 0x481a6c, 0x472f7d, 0x414487, 0x39568c, 0x31688e, 0x2a788e, 0x23888e, 0x1f988b, 0x22a884,
                   0x35b779, 0x54c568, 0x7ad151, 0xa5db36, 0xd2e21b, 0xfde725}),
      interpolate({0xf7fbff, 0xdeebf7, 0xc6dbef, 0x9ecae1, 0x6baed6, 0x4292c6, 0x2171b5, 0x08519c, 0x08306b}),
      interpolate({0x0d1420, 0x10294a, 0x164a80, 0x2171b5, 0x4292c6, 0x6baed6, 0x9ecae1, 0xdeebf7, 0xfdfefe}),
      interpolate({0x67001f, 0xb2182b, 0xd6604d, 0xf4a582, 0xfddbc7, 0xf7f7f7, 0xd1e5f0, 0x92c5de, 0x4393c3, 0x2166ac,
                   0x053061}),
      interpolate({0xffc4ae, 0xf78a70, 0xd94b45, 0x97263a, 0x511a2c, 0x171c24, 0x16304f, 0x1c5a92, 0x3c8bcb, 0x7fbdf0,
                   0xc3e2fc})};
  return palettes[static_cast<std::size_t>(map)];
}

bool is_light(Rgb c) {
  // Relative luminance (WCAG 2.1); seaborn's threshold.
  const auto linear = [](std::uint8_t v) {
    const double s = v / 255.0;
    return s <= 0.03928 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b) > 0.408;
}

}  // namespace fit::plot
