#include "plot/figures/drawing.hpp"

#include <algorithm>
#include <cctype>

#include "fit/base/error.hpp"
#include "tensor/check.hpp"

namespace fit::plot {

const Look& look_of(Theme theme) {
  // Series use Okabe and Ito's colours, which colour-blind readers can distinguish. The light theme omits yellow, which
  // lacks contrast. The dark theme uses lighter variants.
  static const Look light{
      rgb(0xffffff),
      rgb(0x1f2328),
      rgb(0x57606a),
      rgb(0xe4e7eb),
      rgb(0xd0d4d9),
      rgb(0xaab1b9),
      rgb(0xeceff2),
      rgb(0xb4bcc6),
      {rgb(0x0072b2), rgb(0xd55e00), rgb(0x009e73), rgb(0xcc79a7), rgb(0xe69f00), rgb(0x56b4e9), rgb(0x000000)}};
  static const Look dark{
      rgb(0x0d1117),
      rgb(0xe6edf3),
      rgb(0xa3acb6),
      rgb(0x2a313a),
      rgb(0x3d444d),
      rgb(0x7d8590),
      rgb(0x2a313a),
      rgb(0x566170),
      {rgb(0x56b4e9), rgb(0xf0883e), rgb(0x2fc79a), rgb(0xe29bc6), rgb(0xf0d442), rgb(0x4f8ef7), rgb(0xe6edf3)}};
  return theme == Theme::light ? light : dark;
}

const Rgb& series_color(const Look& look, std::size_t i) { return look.series[i % look.series.size()]; }

void Drawing::figure(double x, double y, const Figure& f, Theme around) {
  add(GroupBegin{x, y});
  if (f.theme() != around) add(Box{0, 0, f.width(), f.height(), look_of(f.theme()).ground});
  shapes_.insert(shapes_.end(), f.drawing().shapes().begin(), f.drawing().shapes().end());
  add(GroupEnd{});
}

Figure::Figure(double width, double height, Theme theme, Drawing drawing)
    : width_(width), height_(height), theme_(theme), drawing_(std::make_shared<Drawing>(std::move(drawing))) {}

std::string Figure::svg() const { return svg_of(*drawing_, width_, height_, look_of(theme_).ground); }

void Figure::save(const std::string& path) const {
  constexpr const char* op = "plot::save";
  const std::size_t dot = path.rfind('.');
  std::string ending = dot == std::string::npos ? "" : path.substr(dot);
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  if (ending == ".svg") return write_text(op, path, svg());
  std::string why = "the name must end in .svg";
  if (ending == ".png") {
    const std::string svg = path.substr(0, dot) + ".svg";
    why = "figures are SVG. Save " + svg + ", and convert it by: rsvg-convert " + svg + " -o " + path;
  }
  throw FileError(std::string("[") + op + "] " + path + " can't be written: " + why);
}

Figure side_by_side(const std::vector<Figure>& figures, const std::string& title) {
  if (figures.empty()) check::fail("plot::side_by_side", "no figure was given: there must be one at least");
  const Theme theme = figures.front().theme();
  const std::string shown = shorten(printable(title), longest_title);
  const double top = title.empty() ? 0 : 30;
  double width = 0, height = 0;
  for (const Figure& f : figures) width += f.width(), height = std::max(height, f.height());
  const double title_w = title_width(shown, title_size + 2) + 2 * padding;
  double x = std::max(0.0, (title_w - width) / 2);
  width = std::max(width, title_w);
  Drawing drawing;
  if (!title.empty())
    drawing.text(width / 2, padding + title_size, shown, {title_size + 2, Anchor::middle, look_of(theme).ink, true});
  for (const Figure& f : figures) {
    drawing.figure(x, top, f, theme);
    x += f.width();
  }
  return {width, top + height, theme, std::move(drawing)};
}

}  // namespace fit::plot
