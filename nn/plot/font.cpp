#include "plot/font.hpp"

#include <charconv>
#include <cstring>
#include <unordered_map>

#include "common/utf8.hpp"

namespace fit::plot {
namespace {

constexpr double em = 1024;
constexpr int curve_pieces = 5;  // straight segments per curve

class Outline {
 public:
  Outline(const char* at, const char* end) : at_(at), end_(end) {}

  Glyph read(double advance) {
    Glyph g;
    g.advance = advance / em;
    char command = 0;
    while (at_ < end_) {
      if (*at_ == 'm' || *at_ == 'l' || *at_ == 'q') command = *at_++;
      if (command == 'm') {
        g.contours.emplace_back();
        here_ = start_;  // a contour begins where it ends
        here_ = start_ = next();
      } else if (command == 'l') {
        here_ = next();
      } else {
        const Point from = here_, control = next(), to = next();
        for (int i = 1; i < curve_pieces; ++i) {
          const double t = static_cast<double>(i) / curve_pieces, s = 1 - t;
          g.contours.back().push_back({(s * s * from.x + 2 * s * t * control.x + t * t * to.x) / em,
                                       (s * s * from.y + 2 * s * t * control.y + t * t * to.y) / em});
        }
        here_ = to;
      }
      g.contours.back().push_back({here_.x / em, here_.y / em});
    }
    return g;
  }

 private:
  // Both points of a pair are relative to the same origin.
  Point next() { return {here_.x + number(), here_.y + number()}; }
  double number() {
    while (at_ < end_ && *at_ == ' ') ++at_;
    int v = 0;
    at_ = std::from_chars(at_, end_, v).ptr;
    return v;
  }

  const char *at_, *end_;
  Point here_{0, 0}, start_{0, 0};
};

std::unordered_map<char32_t, Glyph> read_font() {
  std::unordered_map<char32_t, Glyph> font;
  for (const char* const* line = font_lines; *line; ++line) {
    const char* const end = *line + std::strlen(*line);
    std::uint32_t code = 0, advance = 0;
    const char* at = std::from_chars(*line, end, code, 16).ptr + 1;
    at = std::from_chars(at, end, advance).ptr;
    if (at < end) ++at;
    font.emplace(code, Outline(at, end).read(advance));
  }
  return font;
}

Glyph box(double advance) {
  const auto around = [&](double inset) {
    const double left = 0.06 + inset, right = advance - 0.06 - inset, top = -0.74 + inset, bottom = 0.1 - inset;
    return std::vector<Point>{{left, top}, {right, top}, {right, bottom}, {left, bottom}};
  };
  std::vector<Point> hole = around(0.06);
  std::swap(hole[1], hole[3]);
  return {advance, {around(0), hole}};
}

bool has_no_width(char32_t c) {
  const auto within = [c](char32_t low, char32_t high) { return low <= c && c <= high; };
  return within(0x300, 0x36f) || within(0x200b, 0x200f) || within(0x202a, 0x202e) || within(0x2060, 0x206f) ||
         within(0xfe00, 0xfe0f) || c == 0xfeff || c == 0xad;
}

}  // namespace

const Glyph& glyph(char32_t c) {
  static const std::unordered_map<char32_t, Glyph> font = read_font();
  static const Glyph nothing, narrow = box(0.66), wide = box(1);
  if (has_no_width(c)) return nothing;
  const auto found = font.find(c);
  if (found != font.end()) return found->second;
  return c >= 0x1100 ? wide : narrow;  // from U+1100 on, most characters are as wide as high
}

std::vector<char32_t> characters(const std::string& utf8) {
  std::vector<char32_t> all;
  for (std::size_t at = 0; at < utf8.size();) all.push_back(utf8::next(utf8, at));
  return all;
}

}  // namespace fit::plot
