#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "plot/figures/colormap.hpp"
#include "plot/figures/text.hpp"

namespace fit::plot {

inline constexpr double padding = 16, title_size = 15, label_size = 12.5, tick_size = 11;
inline constexpr std::int64_t longest_title = 120, longest_label = 60;  // code points

// The colours of a theme.
struct Look {
  Rgb ground, ink, soft_ink, grid;
  Rgb not_finite, stroke;  // colours of cells without a value
  Rgb masked, hatch;       // of masked cells; the pages have the same (page/shared/theme.css)
  std::vector<Rgb> series;
};
const Look& look_of(Theme theme);
const Rgb& series_color(const Look& look, std::size_t i);

// Each colour of a light figure, with the one at its place in a dark figure. The script of pages has the same list.
const std::vector<std::pair<Rgb, Rgb>>& dark_colors();

// ---- the elements of a figure, drawn from back to front -----------------------------------------------------------

enum class Anchor { start, middle, end };

struct TextStyle {
  double size = tick_size;
  Anchor anchor = Anchor::start;
  Rgb fill{0, 0, 0};
  bool bold = false;
  double rotate = 0;      // degrees, clockwise around (x, y)
  const char* name = "";  // its class
};

struct Text {
  double x, y;
  std::string text;
  TextStyle style;
};
struct Box {
  double x, y, w, h;
  Rgb fill;
  double opacity = 1;
  const char* name = "";   // its class
  std::string title = "";  // a browser's tooltip
};
struct Line {
  double x1, y1, x2, y2;
  Rgb stroke;
  double width = 1, opacity = 1;
  bool dashed = false;
};
struct Step {
  enum class Kind { move, line, curve } kind;
  double x, y;
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;  // control points of a curve
};
// A line with round ends and corners; of width 0, the area that it encloses.
struct Path {
  std::vector<Step> steps;
  Rgb stroke;
  double width = 1, opacity = 1;
  const char* name = "";
  std::string title = "";
  bool dashed = false;
};
struct Dot {
  double x, y, r;
  Rgb fill;
  double opacity = 1;
  std::string title = "";
};
// One pixel for each index (row-major, width x height) into a palette, stretched over the area.
struct Image {
  double x, y, w, h;
  std::int64_t width, height;
  std::vector<std::uint8_t> indices;
  std::vector<Rgb> colors;
  bool smooth;
};
// Translates the elements up to the end of the group. Optionally keeps edges sharp. A panel is a figure within a
// figure: its size lets the page of a lesson place it anew (page/lesson/figures.js).
struct GroupBegin {
  double dx = 0, dy = 0;
  bool crisp = false;
  double panel_width = 0, panel_height = 0;
};
struct GroupEnd {};
struct Description {
  std::string text;
};

using Element = std::variant<Text, Box, Line, Path, Dot, Image, GroupBegin, GroupEnd, Description>;

class Drawing {
 public:
  template <class S>
  void add(S shape) {
    elements_.emplace_back(std::in_place_type<S>, std::move(shape));
  }
  void text(double x, double y, const std::string& s, const TextStyle& style) { add(Text{x, y, printable(s), style}); }
  void line(double x1, double y1, double x2, double y2, Rgb stroke, double width = 1) {
    add(Line{x1, y1, x2, y2, stroke, width});
  }
  // Adds another figure, with its background if the themes differ.
  void figure(double x, double y, const Figure& f, Theme around);
  const std::vector<Element>& elements() const { return elements_; }

 private:
  std::vector<Element> elements_;
};

// A drawing as an SVG document (svg.cpp).
std::string svg_of(const Drawing& drawing, double width, double height, Rgb ground);

}  // namespace fit::plot
