#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "plot/figures/drawing.hpp"
#include "plot/figures/ticks.hpp"

namespace fit::plot {

// The range of values along one side of a frame.
struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  bool log = false;
  std::vector<Tick> ticks;

  bool shows(double v) const { return std::isfinite(v) && (!log || v > 0); }
  void include(double v) {
    if (shows(v)) low = std::min(low, v), high = std::max(high, v);
  }
  double scaled(double v) const { return log ? std::log10(v) : v; }
  double position(double v) const { return (scaled(v) - scaled(low)) / (scaled(high) - scaled(low)); }
  // Pads the range by a fraction on both sides and sets the ticks. Throws Error if the range is empty.
  void finish(const char* op, const char* name, double margin, int tick_count);
};

struct LegendEntry {
  std::string label;
  Rgb color;
  bool dashed = false;
};

// A plotting area with axes, a title, a legend on the right and notes below. Set the public members, then begin().
class Frame {
 public:
  std::string title, xlabel, ylabel;
  Theme theme = Theme::light;
  Axis x, y;  // finished
  std::vector<LegendEntry> legend;
  std::vector<std::string> notes;
  double field_width = 470, field_height = 290;

  // Draws the elements behind the data.
  void begin();
  Drawing drawing;
  const Look& look() const { return look_of(theme); }
  double at_x(double v) const { return left_ + field_width * x.position(v); }
  double at_y(double v) const { return top_ + field_height * (1 - y.position(v)); }
  double left() const { return left_; }
  double top() const { return top_; }
  double right() const { return left_ + field_width; }
  double bottom() const { return top_ + field_height; }
  // Draws the elements in front of the data.
  Figure end();

 private:
  double left_ = 0, top_ = 0, width_ = 0, height_ = 0;
};

}  // namespace fit::plot
