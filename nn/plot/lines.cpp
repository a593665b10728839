#include <algorithm>
#include <cmath>

#include "plot/svg.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

constexpr double plot_width = 470, plot_height = 290;
// Okabe and Ito's colours, which the colour-blind can tell apart; the yellow is left out for want of contrast.
constexpr const char* curve_colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};

struct Axis {
  double low = INFINITY, high = -INFINITY;
  bool log = false;
  std::vector<Tick> ticks;

  bool shows(double v) const { return std::isfinite(v) && (!log || v > 0); }
  void include(double v) {
    if (shows(v)) low = std::min(low, v), high = std::max(high, v);
  }
  double scaled(double v) const { return log ? std::log10(v) : v; }
  double position(double v) const { return (scaled(v) - scaled(low)) / (scaled(high) - scaled(low)); }

  void finish(const char* name, double margin, int tick_count) {
    if (low > high)
      check::fail("plot::lines", "no point can be drawn: there must be a finite ", log ? "positive " : "", name,
                  " at least");
    if (low == high) {
      const double around = low == 0 ? 1 : std::abs(low) / 2;
      low -= around, high += around;
    }
    if (log) {
      const double factor = std::pow(high / low, margin);
      low /= factor, high *= factor;
      ticks = log_ticks(low, high);
    } else {
      const double more = (high - low) * margin;
      low -= more, high += more;
      ticks = round_ticks(low, high, tick_count);
    }
  }
};

double x_of(const Curve& c, std::size_t i) { return c.x.empty() ? static_cast<double>(i) : c.x[i]; }

void check_curves(const std::vector<Curve>& curves) {
  if (curves.empty()) check::fail("plot::lines", "no curve was given: there must be one at least");
  for (const Curve& c : curves)
    if (!c.x.empty() && c.x.size() != c.y.size())
      check::fail("plot::lines", "curve '", c.label, "' has ", c.x.size(), " x and ", c.y.size(),
                  " y: there must be as many of both, or no x");
}

// The indices to draw of a curve: all of them, or of each group the smallest and the largest, in their order. More
// points than that could not be told apart.
std::vector<std::size_t> thinned(const std::vector<double>& y) {
  constexpr std::size_t groups = 1200;
  const std::size_t n = y.size(), group = n <= 4 * groups ? 1 : (n + groups - 1) / groups;
  std::vector<std::size_t> keep;
  for (std::size_t begin = 0; begin < n; begin += group) {
    const auto first = y.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = y.begin() + static_cast<std::ptrdiff_t>(std::min(n, begin + group));
    const auto [low, high] = std::minmax_element(first, last);
    const auto a = static_cast<std::size_t>(std::min(low, high) - y.begin());
    const auto b = static_cast<std::size_t>(std::max(low, high) - y.begin());
    keep.push_back(a);
    if (b != a) keep.push_back(b);
  }
  return keep;
}

// The mean of each point and its neighbours, a fiftieth of the curve in all. What is not drawn has no share in it.
Curve running_mean(const Curve& c, const Axis& y) {
  const std::size_t n = c.y.size(), half = n / 100;
  Curve mean{c.label, {}, c.x};
  double sum = 0;
  std::size_t count = 0, begin = 0, end = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (; end < std::min(n, i + half + 1); ++end)
      if (y.shows(c.y[end])) sum += c.y[end], ++count;
    for (; begin + half < i; ++begin)
      if (y.shows(c.y[begin])) sum -= c.y[begin], --count;
    mean.y.push_back(y.shows(c.y[i]) ? sum / static_cast<double>(count) : NAN);
  }
  return mean;
}

std::string path_of(const Curve& c, const Axis& x, const Axis& y, double left, double top) {
  std::string path;
  bool pen_down = false;
  for (const std::size_t i : thinned(c.y)) {
    const double vx = x_of(c, i), vy = c.y[i];
    const bool shown = x.shows(vx) && y.shows(vy);
    if (shown)
      path += (pen_down ? 'L' : 'M') + coordinate(left + plot_width * x.position(vx)) + ' ' +
              coordinate(top + plot_height * (1 - y.position(vy)));
    pen_down = shown;
  }
  return path;
}

}  // namespace

Figure lines(const std::vector<Curve>& curves, const LineOptions& options) {
  check_curves(curves);
  Axis x, y;
  x.log = options.log_x, y.log = options.log_y;
  double legend_width = 0;
  for (const Curve& c : curves) {
    for (std::size_t i = 0; i < c.y.size(); ++i)
      if (x.shows(x_of(c, i)) && y.shows(c.y[i])) x.include(x_of(c, i)), y.include(c.y[i]);
    if (!c.label.empty()) legend_width = std::max(legend_width, 34 + text_width(c.label, tick_size));
  }
  x.finish("x", 0, 7);
  y.finish("y", 0.05, 6);

  double ticks_width = 0;
  for (const Tick& t : y.ticks) ticks_width = std::max(ticks_width, text_width(t.label, tick_size));
  const double title_w = title_width(options.title, title_size);
  const double left =
      std::max(padding + (options.ylabel.empty() ? 0 : 22) + ticks_width + 7, padding + (title_w - plot_width) / 2);
  const double top = padding + (options.title.empty() ? 4 : 28);
  const double bottom = top + plot_height, right = left + plot_width;
  const double width =
      std::max(right + (legend_width > 0 ? 14 + legend_width : 4), left + (plot_width + title_w) / 2) + padding;
  const double height = bottom + 8 + tick_size + (options.xlabel.empty() ? 0 : 22) + padding - 4;

  Canvas canvas;
  if (!options.title.empty())
    canvas.text(left + plot_width / 2, padding + title_size * 0.8, options.title, {title_size, "middle", ink, true});
  for (const Tick& t : y.ticks) {
    const double at = top + plot_height * (1 - y.position(t.value));
    canvas.line(left, at, right, at, grid_ink);
    canvas.text(left - 7, at + tick_size * 0.36, t.label, {tick_size, "end"});
  }
  for (const Tick& t : x.ticks) {
    const double at = left + plot_width * x.position(t.value);
    canvas.line(at, top, at, bottom, grid_ink);
    canvas.text(at, bottom + 8 + tick_size * 0.8, t.label, {tick_size, "middle"});
  }
  canvas.line(left, bottom, right, bottom, soft_ink);
  canvas.line(left, top, left, bottom, soft_ink);

  double legend_y = top + 8;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::string color = curve_colors[i % std::size(curve_colors)];
    // round ends, so that a single point is a dot
    const auto draw = [&](const Curve& c, const std::string& more) {
      canvas.raw("<path class=\"curve\" d=\"" + path_of(c, x, y, left, top) + "\" fill=\"none\" stroke=\"" + color +
                 "\" stroke-width=\"1.8\" stroke-linejoin=\"round\" stroke-linecap=\"round\"" + more + "/>\n");
    };
    const bool smooth = options.smooth && curves[i].y.size() >= 200;
    draw(curves[i], smooth ? " stroke-opacity=\"0.25\"" : "");
    if (smooth) draw(running_mean(curves[i], y), "");
    if (curves[i].label.empty()) continue;
    canvas.line(right + 14, legend_y, right + 38, legend_y, color, 2.5);
    canvas.text(right + 46, legend_y + tick_size * 0.36, curves[i].label, {tick_size, "start", ink});
    legend_y += 19;
  }
  if (!options.xlabel.empty())
    canvas.text(left + plot_width / 2, height - padding, options.xlabel, {label_size, "middle", ink});
  if (!options.ylabel.empty())
    canvas.text(padding + label_size * 0.8, top + plot_height / 2, options.ylabel,
                {label_size, "middle", ink, false, -90});
  return {width, height, canvas.take()};
}

Figure side_by_side(const std::vector<Figure>& figures, const std::string& title) {
  if (figures.empty()) check::fail("plot::side_by_side", "no figure was given: there must be one at least");
  const double top = title.empty() ? 0 : 30;
  double width = 0, height = 0;
  for (const Figure& f : figures) width += f.width(), height = std::max(height, f.height());
  const double title_w = title_width(title, title_size + 2) + 2 * padding;
  double x = std::max(0.0, (title_w - width) / 2);
  width = std::max(width, title_w);
  Canvas canvas;
  if (!title.empty()) canvas.text(width / 2, padding + title_size, title, {title_size + 2, "middle", ink, true});
  for (const Figure& f : figures) {
    canvas.figure(x, top, f);
    x += f.width();
  }
  return {width, top + height, canvas.take()};
}

}  // namespace fit::plot
