#include <algorithm>
#include <cmath>
#include <limits>

#include "plot/drawing.hpp"
#include "plot/encode.hpp"
#include "plot/font.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

constexpr double most_pixels = 64e6;

// The coverage of each pixel of a rectangle by a shape.
class Coverage {
 public:
  // The rectangle is [left, right) x [top, bottom), clipped to the picture.
  Coverage(double left, double top, double right, double bottom, int width, int height)
      : x0_(clipped(std::floor(left) - 1, width)),
        y0_(clipped(std::floor(top) - 1, height)),
        w_(clipped(std::ceil(right) + 1, width) - x0_),
        h_(clipped(std::ceil(bottom) + 1, height) - y0_) {
    covered_.assign(static_cast<std::size_t>(w_) * static_cast<std::size_t>(h_), 0.0f);
  }
  int x0() const { return x0_; }
  int y0() const { return y0_; }
  int width() const { return w_; }
  int height() const { return h_; }
  float at(int x, int y) const { return std::min(1.0f, covered_[index(x, y)]); }

  // Fills closed contours; holes have the opposite orientation. Each edge adds the signed area to its right.
  void fill(const std::vector<std::vector<Point>>& contours) {
    if (covered_.empty()) return;
    std::vector<float> edges((static_cast<std::size_t>(w_) + 2) * static_cast<std::size_t>(h_), 0.0f);
    for (const auto& c : contours)
      for (std::size_t i = 0; i < c.size(); ++i) edge(edges, c[i], c[(i + 1) % c.size()]);
    for (int y = 0; y < h_; ++y) {
      float sum = 0;
      for (int x = 0; x < w_; ++x) {
        sum += edges[static_cast<std::size_t>(y) * (static_cast<std::size_t>(w_) + 2) + static_cast<std::size_t>(x)];
        float& c = covered_[index(x, y)];
        c = std::max(c, std::abs(sum));
      }
    }
  }

  // Covers the points within `radius` of a segment. Overlapping segments cover a point once.
  void stroke(Point a, Point b, double radius) {
    const double length = std::hypot(b.x - a.x, b.y - a.y);
    const int pieces = std::max(1, static_cast<int>(length / 24));  // pieces with small bounding boxes
    for (int i = 0; i < pieces; ++i) {
      const auto at = [&](int k) {
        const double t = static_cast<double>(k) / pieces;
        return Point{a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t};
      };
      piece(at(i), at(i + 1), radius);
    }
  }

 private:
  static int clipped(double v, int size) { return static_cast<int>(std::clamp(v, 0.0, static_cast<double>(size))); }
  std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(w_) + static_cast<std::size_t>(x);
  }

  void piece(Point a, Point b, double radius) {
    const double thick = std::max(radius, 0.5), dim = std::min(1.0, radius / 0.5);
    const double dx = b.x - a.x, dy = b.y - a.y, squared = dx * dx + dy * dy, reach = thick + 1;
    const int left = std::max(0, static_cast<int>(std::floor(std::min(a.x, b.x) - reach)) - x0_);
    const int right = std::min(w_, static_cast<int>(std::ceil(std::max(a.x, b.x) + reach)) - x0_);
    const int top = std::max(0, static_cast<int>(std::floor(std::min(a.y, b.y) - reach)) - y0_);
    const int bottom = std::min(h_, static_cast<int>(std::ceil(std::max(a.y, b.y) + reach)) - y0_);
    for (int y = top; y < bottom; ++y)
      for (int x = left; x < right; ++x) {
        const double px = x + x0_ + 0.5 - a.x, py = y + y0_ + 0.5 - a.y;
        const double t = squared > 0 ? std::clamp((px * dx + py * dy) / squared, 0.0, 1.0) : 0;
        const double distance = std::hypot(px - t * dx, py - t * dy);
        float& c = covered_[index(x, y)];
        c = std::max(c, static_cast<float>(dim * std::clamp(thick + 0.5 - distance, 0.0, 1.0)));
      }
  }

  // Adds the area right of an edge to each pixel that the edge crosses, and its height to the next pixel. A running sum
  // along the row then gives the coverage.
  void edge(std::vector<float>& edges, Point a, Point b) const {
    if (a.y == b.y) return;
    const double sign = a.y < b.y ? 1 : -1;
    if (a.y > b.y) std::swap(a, b);
    const double slope = (b.x - a.x) / (b.y - a.y);
    const int first = std::max(0, static_cast<int>(std::floor(a.y)) - y0_);
    const int last = std::min(h_ - 1, static_cast<int>(std::ceil(b.y)) - 1 - y0_);
    for (int y = first; y <= last; ++y) {
      const double top = std::max<double>(a.y, y + y0_), bottom = std::min<double>(b.y, y + y0_ + 1);
      if (bottom <= top) continue;
      float* const row = edges.data() + static_cast<std::size_t>(y) * (static_cast<std::size_t>(w_) + 2);
      crossing(row, a.x + (top - a.y) * slope - x0_, a.x + (bottom - a.y) * slope - x0_, sign * (bottom - top));
    }
  }

  // Adds an edge from x = from to x = to within one row, with this signed height.
  void crossing(float* row, double from, double to, double height) const {
    if (from > to) std::swap(from, to);
    from = std::clamp(from, 0.0, static_cast<double>(w_)), to = std::clamp(to, 0.0, static_cast<double>(w_));
    const int first = static_cast<int>(from), last = static_cast<int>(to);
    double before = 0;  // height of the edge's part left of this pixel
    for (int x = first; x <= last; ++x) {
      const double left = std::max<double>(from, x), right = std::min<double>(to, x + 1);
      const double share = to > from ? (right - left) / (to - from) : 1;
      // the part covers the area to its right in this pixel, and its full height in all later pixels
      const double here = height * share * (x + 1 - (left + right) / 2);
      row[x] += static_cast<float>(here + before);
      before = height * share - here;
    }
    row[last + 1] += static_cast<float>(before);
  }

  int x0_, y0_, w_, h_;
  std::vector<float> covered_;
};

class Raster {
 public:
  Raster(int width, int height, double scale, Rgb ground)
      : width_(width),
        height_(height),
        scale_(scale),
        pixels_(3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {
    for (std::size_t i = 0; i < pixels_.size(); i += 3)
      pixels_[i] = ground.r, pixels_[i + 1] = ground.g, pixels_[i + 2] = ground.b;
  }
  std::string png() const { return rgb_png(width_, height_, pixels_); }

  void operator()(const Text& t) {
    const double size = t.style.size * scale_, radians = t.style.rotate * std::acos(-1.0) / 180;
    const double c = std::cos(radians), s = std::sin(radians);
    const Point origin = place(t.x, t.y);
    const auto text = characters(t.text);
    const double apart = t.style.bold ? 0.05 : 0;  // bold text needs extra spacing
    double at = 0;
    for (const char32_t one : text) at += glyph(one).advance + apart;
    at *= t.style.anchor == Anchor::start ? 0 : t.style.anchor == Anchor::middle ? -0.5 : -1;
    for (const char32_t one : text) {
      const Glyph& g = glyph(one);
      std::vector<std::vector<Point>> contours = g.contours;
      for (auto& contour : contours)
        for (Point& p : contour) {
          const double x = (p.x + at) * size, y = p.y * size;
          p = {origin.x + x * c - y * s, origin.y + x * s + y * c};
        }
      at += g.advance + apart;
      letter(contours, t.style.fill, t.style.bold ? 0.028 * size : 0);
    }
  }
  void operator()(const Box& b) {
    const Pixels p = pixels_of(b.x, b.y, b.w, b.h);
    for (int y = p.top; y < p.bottom; ++y)
      for (int x = p.left; x < p.right; ++x) blend(x, y, b.fill, b.opacity);
  }
  void operator()(const Line& l) {
    if (l.x1 != l.x2 && l.y1 != l.y2)
      return strokes({{place(l.x1, l.y1), place(l.x2, l.y2)}}, l.stroke, l.width, l.opacity);
    // A horizontal or vertical line is aligned to full pixels.
    const double half = std::max(1.0, std::round(l.width * scale_)) / scale_ / 2;
    const double w = l.x1 == l.x2 ? half : 0, h = l.x1 == l.x2 ? 0 : half;
    (*this)(Box{std::min(l.x1, l.x2) - w, std::min(l.y1, l.y2) - h, std::abs(l.x2 - l.x1) + 2 * w,
                std::abs(l.y2 - l.y1) + 2 * h, l.stroke, l.opacity});
  }
  void operator()(const Path& p) {
    std::vector<std::vector<Point>> lines;
    for (const Step& s : p.steps) {
      const Point to = place(s.x, s.y);
      if (s.kind == Step::Kind::move || lines.empty()) lines.emplace_back();
      if (s.kind == Step::Kind::curve && !lines.back().empty())
        flatten(lines.back(), place(s.x1, s.y1), place(s.x2, s.y2), to);
      lines.back().push_back(to);
    }
    strokes(lines, p.stroke, p.width, p.opacity);
  }
  void operator()(const Dot& d) {
    const Point at = place(d.x, d.y);
    strokes({{at}}, d.fill, 2 * d.r, d.opacity);
  }
  void operator()(const Image& i) {
    const Pixels p = pixels_of(i.x, i.y, i.w, i.h);
    const auto source = [](int at, int begin, int end, std::int64_t size) {
      return std::min(size - 1,
                      static_cast<std::int64_t>((at - begin + 0.5) / (end - begin) * static_cast<double>(size)));
    };
    for (int y = p.top; y < p.bottom; ++y)
      for (int x = p.left; x < p.right; ++x) {
        const std::int64_t pixel = source(y, p.top, p.bottom, i.height) * i.width + source(x, p.left, p.right, i.width);
        blend(x, y, i.colors[i.indices[pixel]], 1);
      }
  }
  void operator()(const GroupBegin& g) {
    groups_.push_back({dx_, dy_});
    dx_ += g.dx, dy_ += g.dy;
  }
  void operator()(const GroupEnd&) {
    dx_ = groups_.back().x, dy_ = groups_.back().y;
    groups_.pop_back();
  }
  void operator()(const Description&) {}

 private:
  struct Pixels {
    int left, top, right, bottom;
  };
  Point place(double x, double y) const { return {(x + dx_) * scale_, (y + dy_) * scale_}; }

  // Edges are aligned to pixel boundaries; no rectangle vanishes.
  Pixels pixels_of(double x, double y, double w, double h) const {
    const Point a = place(x, y), b = place(x + w, y + h);
    const auto edge = [](double v, int size) { return static_cast<int>(std::clamp<double>(std::round(v), 0, size)); };
    Pixels p{edge(a.x, width_), edge(a.y, height_), edge(b.x, width_), edge(b.y, height_)};
    p.right = std::min(width_, std::max(p.right, p.left + 1));
    p.bottom = std::min(height_, std::max(p.bottom, p.top + 1));
    return p;
  }

  static void flatten(std::vector<Point>& line, Point a, Point b, Point to) {
    const Point from = line.back();
    constexpr int pieces = 24;
    for (int i = 1; i < pieces; ++i) {
      const double t = static_cast<double>(i) / pieces, s = 1 - t;
      const double k[] = {s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t};
      line.push_back({k[0] * from.x + k[1] * a.x + k[2] * b.x + k[3] * to.x,
                      k[0] * from.y + k[1] * a.y + k[2] * b.y + k[3] * to.y});
    }
  }

  Coverage around(const std::vector<std::vector<Point>>& lines, double radius) const {
    double left = std::numeric_limits<double>::infinity(), top = left, right = -left, bottom = -left;
    for (const auto& line : lines)
      for (const Point p : line) {
        left = std::min(left, p.x - radius), right = std::max(right, p.x + radius);
        top = std::min(top, p.y - radius), bottom = std::max(bottom, p.y + radius);
      }
    return Coverage(left, top, right, bottom, width_, height_);
  }

  void letter(const std::vector<std::vector<Point>>& contours, Rgb color, double bolder) {
    if (contours.empty()) return;
    Coverage c = around(contours, bolder + 1);
    c.fill(contours);
    if (bolder > 0)
      for (const auto& line : contours)
        for (std::size_t i = 0; i < line.size(); ++i) c.stroke(line[i], line[(i + 1) % line.size()], bolder);
    paint(c, color, 1);
  }

  void strokes(const std::vector<std::vector<Point>>& lines, Rgb color, double width, double opacity) {
    if (lines.empty()) return;
    const double radius = width * scale_ / 2;
    Coverage c = around(lines, radius + 1);
    for (const auto& line : lines)
      for (std::size_t i = 0; i < line.size(); ++i)
        if (i > 0 || line.size() == 1) c.stroke(line[i == 0 ? 0 : i - 1], line[i], radius);
    paint(c, color, opacity);
  }

  void paint(const Coverage& c, Rgb color, double opacity) {
    for (int y = 0; y < c.height(); ++y)
      for (int x = 0; x < c.width(); ++x)
        if (const float covered = c.at(x, y); covered > 0) blend(x + c.x0(), y + c.y0(), color, opacity * covered);
  }

  void blend(int x, int y, Rgb color, double share) {
    std::uint8_t* const p = pixels_.data() + 3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                                                  static_cast<std::size_t>(x));
    const auto mix = [share](std::uint8_t& to, std::uint8_t from) {
      to = static_cast<std::uint8_t>(std::lround(to + (from - to) * share));
    };
    mix(p[0], color.r), mix(p[1], color.g), mix(p[2], color.b);
  }

  int width_, height_;
  double scale_, dx_ = 0, dy_ = 0;
  std::vector<Point> groups_;  // origins of the enclosing groups
  std::vector<std::uint8_t> pixels_;
};

}  // namespace

std::string png_of(const Drawing& drawing, double width, double height, Rgb ground, double scale) {
  constexpr const char* op = "plot::png";
  if (!(scale > 0) || !std::isfinite(scale)) check::fail(op, "scale is ", scale, ": it must be positive and finite");
  const double w = std::ceil(width * scale), h = std::ceil(height * scale);
  if (w * h > most_pixels)
    check::fail(op, "the picture would have ", w, " x ", h, " pixels, more than ", most_pixels,
                ": choose a smaller scale, or save it as .svg");
  Raster raster(static_cast<int>(w), static_cast<int>(h), scale, ground);
  for (const Shape& shape : drawing.shapes()) std::visit(raster, shape);
  return raster.png();
}

}  // namespace fit::plot
