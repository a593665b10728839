#include <algorithm>
#include <cmath>

#include "fit/graph/graph.hpp"
#include "plot/figures/frame.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

constexpr const char* lines_op = "plot::lines";

double x_of(const Curve& c, std::size_t i) { return c.x.empty() ? static_cast<double>(i) : c.x[i]; }

void check_curves(const std::vector<Curve>& curves) {
  if (curves.empty()) check::fail(lines_op, "no curve was given: there must be one at least");
  for (const Curve& c : curves)
    if (!c.x.empty() && c.x.size() != c.y.size())
      check::fail(lines_op, "curve '", c.label, "' has ", c.x.size(), " x and ", c.y.size(),
                  " y: there must be as many of both, or no x");
  for (const Curve& c : curves)
    for (const Coordinates& edge : {c.low(), c.high()})
      if (edge.values().size() != (c.low().values().empty() && c.high().values().empty() ? 0 : c.y.size()))
        check::fail(lines_op, "curve '", c.label, "' has ", c.y.size(), " y, and an edge of its band ",
                    edge.values().size(), ": both edges must have as many, or none");
}

// How many neighbouring points are drawn as two.
std::size_t group_of(std::size_t n) {
  constexpr std::size_t groups = 1200;
  return n <= 4 * groups ? 1 : (n + groups - 1) / groups;
}

// The indices of a curve to draw: all, or the minimum and maximum of each group, in order. More points could not be
// distinguished.
std::vector<std::size_t> thinned(const std::vector<double>& y) {
  const std::size_t n = y.size(), group = group_of(n);
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

// A moving average over a fiftieth of the curve. Points that are not drawn are ignored.
Curve running_mean(const Curve& c, const Axis& y) {
  const std::size_t n = c.y.size(), half = n / 100;
  Curve mean(c.label, c.x, {});
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

// The area between the edges of a curve's band, in pieces where an edge can't be drawn.
void draw_band(const Curve& c, Frame& frame, Rgb color) {
  const std::vector<double>&low = c.low().values(), &high = c.high().values();
  const std::size_t n = low.size(), group = group_of(n);
  std::vector<Step> above, below;
  const auto finish = [&] {
    if (above.size() > 1) {
      above.insert(above.end(), below.rbegin(), below.rend());
      above[0].kind = Step::Kind::move;
      frame.drawing.add(Path{above, color, 0, 0.2, "band"});
    }
    above.clear(), below.clear();
  };
  for (std::size_t begin = 0; begin < n; begin += group) {
    const auto at = static_cast<std::ptrdiff_t>(begin), end = static_cast<std::ptrdiff_t>(std::min(n, begin + group));
    const double x = x_of(c, begin), bottom = *std::min_element(low.begin() + at, low.begin() + end);
    const double top = *std::max_element(high.begin() + at, high.begin() + end);
    if (frame.x.shows(x) && frame.y.shows(bottom) && frame.y.shows(top)) {
      above.push_back({Step::Kind::line, frame.at_x(x), frame.at_y(top)});
      below.push_back({Step::Kind::line, frame.at_x(x), frame.at_y(bottom)});
    } else {
      finish();
    }
  }
  finish();
}

// round ends, so that a single point is a dot
Path path_of(const Curve& c, const Frame& frame, Rgb color, double opacity, bool dashed) {
  Path path{{}, color, 1.8, opacity, "curve", "", dashed};
  bool pen_down = false;
  for (const std::size_t i : thinned(c.y)) {
    const double vx = x_of(c, i), vy = c.y[i];
    const bool shown = frame.x.shows(vx) && frame.y.shows(vy);
    if (shown) path.steps.push_back({pen_down ? Step::Kind::line : Step::Kind::move, frame.at_x(vx), frame.at_y(vy)});
    pen_down = shown;
  }
  return path;
}

}  // namespace

Coordinates::Coordinates(const Tensor& values) {
  if (!values.defined() || values.rank() != 1)
    check::fail(lines_op, "the coordinates of a curve are ", values.defined() ? values.shape().str() : "undefined",
                ": they must be numbers along one axis, [N]");
  values_ = values.detach().to(float64).to_vector<double>();
}

Figure lines(const std::vector<Curve>& curves, const LineOptions& options) {
  check_curves(curves);
  Frame frame;
  frame.title = options.title(), frame.xlabel = options.xlabel(), frame.ylabel = options.ylabel();
  frame.theme = options.theme();
  const auto dashed = [&](std::size_t i) { return curves[i].dashed() || i / frame.look().series.size() % 2 == 1; };
  Axis &x = frame.x, &y = frame.y;
  x.log = options.log_x(), y.log = options.log_y();
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const Curve& c = curves[i];
    for (const std::vector<double>* values : {&c.y, &c.low().values(), &c.high().values()})
      for (std::size_t k = 0; k < values->size(); ++k)
        if (x.shows(x_of(c, k)) && y.shows((*values)[k])) x.include(x_of(c, k)), y.include((*values)[k]);
    if (!c.label.empty()) frame.legend.push_back({c.label, series_color(frame.look(), i), dashed(i)});
  }
  const auto shown = [](const Axis& a) { return a.log ? "a finite positive " : "a finite "; };
  if (x.low > x.high)
    check::fail(lines_op, "no point can be drawn: there must be one with ", shown(x), "x and ", shown(y), "y at least");
  x.finish(lines_op, "x", 0, 7);
  y.finish(lines_op, "y", 0.05, 6);
  frame.begin();
  for (std::size_t i = 0; i < curves.size(); ++i) draw_band(curves[i], frame, series_color(frame.look(), i));
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const Rgb color = series_color(frame.look(), i);
    const bool smooth = options.smooth() && curves[i].y.size() >= 200;
    frame.drawing.add(path_of(curves[i], frame, color, smooth ? 0.25 : 1, dashed(i)));
    if (smooth) frame.drawing.add(path_of(running_mean(curves[i], y), frame, color, 1, dashed(i)));
  }
  return frame.end();
}

}  // namespace fit::plot
