#include "plot/figures/drawing.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "base/affixes.hpp"
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

const std::vector<std::pair<Rgb, Rgb>>& dark_colors() {
  static const std::vector<std::pair<Rgb, Rgb>> all = [] {
    std::vector<std::pair<Rgb, Rgb>> pairs;
    const auto add = [&](const auto& light, const auto& dark) {
      for (std::size_t i = 0; i < light.size(); ++i) pairs.emplace_back(light[i], dark[i]);
    };
    for (const Colormap map : {weights_map, Colormap::rdbu}) add(palette(map), palette(in_dark(map)));
    const auto inks = [](const Look& look) {
      return std::array{look.ink, look.soft_ink, look.grid, look.not_finite, look.stroke, look.masked, look.hatch};
    };
    const Look &light = look_of(Theme::light), &dark = look_of(Theme::dark);
    add(inks(light), inks(dark));
    add(light.series, dark.series);
    return pairs;
  }();
  return all;
}

namespace {

// Turns the elements of a light figure dark.
struct Darken {
  std::map<std::uint32_t, Rgb> dark;

  Darken() {
    for (const auto& [from, to] : dark_colors()) dark[from.number()] = to;
  }
  void turn(Rgb& color) const {
    if (const auto found = dark.find(color.number()); found != dark.end()) color = found->second;
  }
  void operator()(Text& t) const {
    const std::string name = t.style.name;
    if (name == "on-cell turns") t.style.fill = ink_on(t.style.fill), t.style.name = "on-cell";  // the other ink
    if (!starts_with(name, "on-cell")) turn(t.style.fill);
  }
  void operator()(Box& b) const { turn(b.fill); }
  void operator()(Line& l) const { turn(l.stroke); }
  void operator()(Path& p) const { turn(p.stroke); }
  void operator()(Dot& d) const { turn(d.fill); }
  void operator()(Image& i) const {
    for (Rgb& color : i.colors) turn(color);
  }
  void operator()(GroupBegin&) const {}
  void operator()(GroupEnd&) const {}
  void operator()(Description&) const {}
};

}  // namespace

void Drawing::figure(double x, double y, const Figure& f, Theme around) {
  add(GroupBegin{x, y, false, f.width(), f.height()});
  if (f.theme() != around) add(Box{0, 0, f.width(), f.height(), look_of(f.theme()).ground});
  elements_.insert(elements_.end(), f.drawing().elements().begin(), f.drawing().elements().end());
  add(GroupEnd{});
}

Figure::Figure(double width, double height, Theme theme, Drawing drawing)
    : width_(width), height_(height), theme_(theme), drawing_(std::make_shared<Drawing>(std::move(drawing))) {}

Figure Figure::dark() const {
  if (theme_ == Theme::dark) return *this;
  const Darken darken;
  Drawing drawing;
  for (Element element : drawing_->elements()) {
    std::visit(darken, element);
    std::visit([&](auto& each) { drawing.add(std::move(each)); }, element);
  }
  return {width_, height_, Theme::dark, std::move(drawing)};
}

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
  constexpr double most_width = 1000;
  struct Place {
    std::size_t row;
    double x;
  };
  std::vector<Place> places;
  std::vector<double> widths(1, 0), heights(1, 0);  // of the rows
  for (const Figure& f : figures) {
    if (widths.back() > 0 && widths.back() + f.width() > most_width) widths.push_back(0), heights.push_back(0);
    places.push_back({widths.size() - 1, widths.back()});
    widths.back() += f.width();
    heights.back() = std::max(heights.back(), f.height());
  }
  const double title_w = title_width(shown, title_size + 2) + 2 * padding;
  const double width = std::max(*std::max_element(widths.begin(), widths.end()), title_w);
  Drawing drawing;
  if (!title.empty())
    drawing.text(width / 2, padding + title_size, shown,
                 {title_size + 2, Anchor::middle, look_of(theme).ink, true, 0, "title"});
  std::vector<double> tops(1, top);
  for (const double h : heights) tops.push_back(tops.back() + h);
  for (std::size_t i = 0; i < figures.size(); ++i)
    drawing.figure((width - widths[places[i].row]) / 2 + places[i].x, tops[places[i].row], figures[i], theme);
  return {width, tops.back(), theme, std::move(drawing)};
}

}  // namespace fit::plot
