#include <algorithm>
#include <cmath>

#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "plot/figures/drawing.hpp"
#include "plot/figures/matrix.hpp"
#include "plot/figures/ticks.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

constexpr double tick_gap = 6, bar_width = 13, bar_gap = 18, title_height = 28, axis_height = 22;
constexpr double label_space = tick_size + 1.5;
constexpr std::int64_t most_rects = std::int64_t{64} * 64;  // above this, cells are pixels of one image
constexpr std::int64_t most_drawn = 1024;                   // rows and columns; above this, blocks are drawn

// The direction of the column labels: horizontal, slanted or vertical.
struct ColumnLabels {
  double angle = 0, height = 0;
  double left = 0;  // how far labels extend left of the cells
  std::int64_t stride = 1;
};

struct Cells {
  double w, h;
};

double widest_label(const std::vector<std::string>& labels, std::int64_t stride) {
  double widest = 0;
  for (std::size_t i = 0; i < labels.size(); i += static_cast<std::size_t>(stride))
    widest = std::max(widest, text_width(labels[i], tick_size));
  return widest;
}

double widest_value(const Matrix& m) {
  double widest = 0;
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < m.cols; ++c)
      if (m.has_value(r, c)) widest = std::max(widest, text_width(m.text(r, c), tick_size));
  return widest;
}

// The largest cell size that keeps the picture in bounds. Printed values, and up to 64 words, must fit into a cell.
Cells cell_size(const Matrix& m, bool values, bool words, double area) {
  const double most = values ? 54 : 40;
  double side = std::clamp(area / static_cast<double>(std::max(m.rows, m.cols)), 0.5, most);
  if (values) side = std::max(side, widest_value(m) + 8);
  if (words && std::max(m.rows, m.cols) <= most_labels) side = std::max(side, label_space);
  // A matrix of few rows gets cells that are thick enough to see.
  const auto stretch = [&](std::int64_t n) { return std::max(side, std::min(most, 72 / static_cast<double>(n))); };
  return {stretch(m.cols), stretch(m.rows)};
}

ColumnLabels column_labels(const std::vector<std::string>& labels, double step) {
  ColumnLabels l;
  const auto n = static_cast<std::int64_t>(labels.size());
  // Names of a letter or two never turn.
  const bool letters =
      std::all_of(labels.begin(), labels.end(), [](const std::string& s) { return code_points(s) <= 2; });
  const std::int64_t flat = label_stride(n, step, widest_label(labels, 1) + (letters ? 2 : 6));
  if (flat == 1 || letters || are_numbers(labels)) {
    l.height = tick_size + 2;
    l.stride = flat;
    return l;
  }
  l.angle = step >= 1.5 * tick_size ? -45 : -90;
  l.stride = label_stride(n, step, label_space);
  const double slope = l.angle == -45 ? std::sqrt(0.5) : 1;
  l.height = widest_label(labels, l.stride) * slope + tick_size * 0.7;
  if (l.angle == -45)
    for (std::int64_t i = 0; i < n; i += l.stride)
      l.left = std::max(l.left, text_width(labels[i], tick_size) * slope - (static_cast<double>(i) + 0.5) * step);
  return l;
}

// One matrix at a known position.
struct Panel {
  const Matrix& matrix;
  const Scale& scale;
  const std::vector<std::string>&x, &y;
  Cells cell;
  bool values;
  const Look& look;
  double width() const { return cell.w * static_cast<double>(matrix.cols); }
  double height() const { return cell.h * static_cast<double>(matrix.rows); }

  void draw_cells(Drawing& drawing, double left, double top) const {
    const bool as_image = matrix.rows * matrix.cols > most_rects;
    const double gap = !as_image && std::min(cell.w, cell.h) >= 14 ? 1 : 0;
    const auto each_cell = [&](auto draw) {
      for (std::int64_t r = 0; r < matrix.rows; ++r)
        for (std::int64_t c = 0; c < matrix.cols; ++c)
          draw(r, c, left + static_cast<double>(c) * cell.w, top + static_cast<double>(r) * cell.h);
    };
    if (as_image) {
      draw_image(drawing, left, top);
    } else {
      if (gap == 0) drawing.add(GroupBegin{0, 0, true});
      each_cell([&](auto r, auto c, double x, double y) { draw_cell(drawing, r, c, x, y, gap); });
      if (gap == 0) drawing.add(GroupEnd{});
    }
    draw_hatch(drawing, left, top);
    if (values && !as_image)
      each_cell([&](auto r, auto c, double x, double y) { draw_value(drawing, r, c, x, y, gap); });
  }

  Rgb color(std::int64_t r, std::int64_t c) const {
    return matrix.is_masked(r, c) ? look.masked : scale.color(matrix.at(r, c));
  }

  void draw_cell(Drawing& drawing, std::int64_t r, std::int64_t c, double left, double top, double gap) const {
    const std::string names = y[r] + " → " + x[c];
    drawing.add(Box{left, top, cell.w - gap, cell.h - gap, color(r, c), 1, "cell", names + ": " + matrix.text(r, c)});
    if (!std::isfinite(matrix.at(r, c)) && !matrix.is_masked(r, c))
      drawing.line(left, top + cell.h - gap, left + cell.w - gap, top, look.stroke);
  }

  void draw_value(Drawing& drawing, std::int64_t r, std::int64_t c, double left, double top, double gap) const {
    if (!matrix.has_value(r, c)) return;
    drawing.text(left + (cell.w - gap) / 2, top + (cell.h - gap) / 2 + tick_size * 0.36, matrix.text(r, c),
                 {tick_size, Anchor::middle, ink_on(color(r, c)), false, 0,
                  matrix.is_masked(r, c)   ? ""
                  : turns(matrix.at(r, c)) ? "on-cell turns"
                                           : "on-cell"});
  }

  // Whether the number on a cell takes the other ink when a page turns the figure dark.
  bool turns(double v) const {
    const int i = scale.index(v);
    if (i == palette_size) return is_light(scale.not_finite);
    const auto light = [&](Colormap map) { return is_light(palette(map)[i]); };
    return light(scale.map) != light(in_dark(scale.map));
  }

  // Slanted lines over all masked cells, 8 apart. Cells side by side share their lines.
  void draw_hatch(Drawing& drawing, double left, double top) const {
    if (matrix.masked.empty()) return;
    constexpr double distance = 8;
    Path hatch{{}, look.hatch, 1, 1, "hatch"};
    for (double sum = distance / 2; sum < width() + height(); sum += distance) {  // the line x + y = sum
      const double begin = std::max(0.0, sum - height()), end = std::min(width(), sum);
      std::vector<double> at{begin, end};  // where the line enters a cell
      for (std::int64_t c = 1; c < matrix.cols; ++c) at.push_back(static_cast<double>(c) * cell.w);
      for (std::int64_t r = 1; r < matrix.rows; ++r) at.push_back(sum - static_cast<double>(r) * cell.h);
      at.erase(std::remove_if(at.begin(), at.end(), [&](double v) { return v < begin || v > end; }), at.end());
      std::sort(at.begin(), at.end());
      bool drawn = false;
      for (std::size_t i = 0; i + 1 < at.size(); ++i) {
        const double middle = (at[i] + at[i + 1]) / 2;
        const auto c = std::min(matrix.cols - 1, static_cast<std::int64_t>(middle / cell.w));
        const auto r = std::min(matrix.rows - 1, static_cast<std::int64_t>((sum - middle) / cell.h));
        const bool masked = matrix.is_masked(r, c);
        if (masked && !drawn) hatch.steps.push_back({Step::Kind::move, left + at[i], top + sum - at[i]});
        if (masked && drawn) hatch.steps.pop_back();
        if (masked) hatch.steps.push_back({Step::Kind::line, left + at[i + 1], top + sum - at[i + 1]});
        drawn = masked;
      }
    }
    if (!hatch.steps.empty()) drawing.add(std::move(hatch));
  }

  void draw_image(Drawing& drawing, double left, double top) const {
    std::vector<std::uint8_t> indices;
    for (std::size_t i = 0; i < matrix.values.size(); ++i)
      indices.push_back(static_cast<std::uint8_t>(
          !matrix.masked.empty() && matrix.masked[i] ? palette_size : scale.index(matrix.values[i])));
    std::vector<Rgb> colors(palette(scale.map).begin(), palette(scale.map).end());
    colors.push_back(matrix.masked.empty() ? look.not_finite : look.masked);
    drawing.add(
        Image{left, top, width(), height(), matrix.cols, matrix.rows, std::move(indices), std::move(colors), false});
  }

  std::int64_t row_stride() const {
    const std::int64_t stride = label_stride(matrix.rows, cell.h, label_space);
    // numbers that skip some labels can skip more
    return stride > 1 && are_numbers(y) ? label_stride(matrix.rows, cell.h, 2 * label_space) : stride;
  }

  void draw_row_labels(Drawing& drawing, double left, double top) const {
    for (std::int64_t r = 0; r < matrix.rows; r += row_stride())
      drawing.text(left - tick_gap, top + (static_cast<double>(r) + 0.5) * cell.h + tick_size * 0.36, y[r],
                   {tick_size, Anchor::end, look.soft_ink});
  }

  void draw_column_labels(Drawing& drawing, double left, double bottom, const ColumnLabels& labels) const {
    for (std::int64_t c = 0; c < matrix.cols; c += labels.stride) {
      const double middle = left + (static_cast<double>(c) + 0.5) * cell.w;
      const auto& s = x[c];
      if (labels.angle == 0)
        drawing.text(middle, bottom + tick_gap + tick_size * 0.8, s, {tick_size, Anchor::middle, look.soft_ink});
      else
        drawing.text(middle + tick_size * (labels.angle == -45 ? 0.3 : 0.36), bottom + tick_gap + tick_size * 0.4, s,
                     {tick_size, Anchor::end, look.soft_ink, false, labels.angle});
    }
  }
};

// The width from the colour bar's left edge to the end of its labels.
struct ColorBar {
  const Scale& scale;
  const Look& look;
  double height;
  std::string label;
  std::vector<Tick> ticks;

  ColorBar(const Scale& s, const Look& l, double h, const std::string& name)
      : scale(s), look(l), height(h), label(shorten(printable(name), longest_label)) {
    // One tick alone gives no scale.
    for (int count = std::clamp(static_cast<int>(h / 45), 2, 6); ticks.size() < 2; ++count)
      ticks = round_ticks(s.low, s.high, count);
    if (s.below) mark_end(s.low, "≤ " + short_number(s.low));
    if (s.above) mark_end(s.high, "≥ " + short_number(s.high));
  }
  // Replaces the tick at an end of the scale, beyond which values lie, and those so near that they would touch it.
  void mark_end(double end, const std::string& text) {
    const double near = label_space / height * (scale.high - scale.low);
    ticks.erase(
        std::remove_if(ticks.begin(), ticks.end(), [&](const Tick& t) { return std::abs(t.value - end) < near; }),
        ticks.end());
    ticks.push_back({end, text});
  }
  double ticks_width() const {
    double widest = 0;
    for (const Tick& t : ticks) widest = std::max(widest, text_width(t.label, tick_size));
    return widest;
  }
  double width() const { return bar_width + 8 + ticks_width() + (label.empty() ? 0 : axis_height); }

  void draw(Drawing& drawing, double left, double top) const {
    const auto& colors = palette(scale.map);
    std::vector<std::uint8_t> downwards;
    for (int i = palette_size - 1; i >= 0; --i) downwards.push_back(static_cast<std::uint8_t>(i));
    drawing.add(Image{left, top, bar_width, height, 1, palette_size, downwards, {colors.begin(), colors.end()}, true});
    for (const Tick& t : ticks) {
      const double y = top + height * (scale.high - t.value) / (scale.high - scale.low);
      drawing.line(left + bar_width, y, left + bar_width + 4, y, look.soft_ink);
      drawing.text(left + bar_width + 8, y + tick_size * 0.36, t.label, {tick_size, Anchor::start, look.soft_ink});
    }
    if (!label.empty()) {
      const double x = left + width() - 4;
      drawing.text(x, top + height / 2, label, {label_size, Anchor::middle, look.ink, false, -90});
    }
  }
};

std::string description(const Matrix& m, const Scale& s) {
  return std::to_string(m.rows) + " x " + std::to_string(m.cols) + ", colours from " + short_number(s.low) + " to " +
         short_number(s.high);
}

// The note under a matrix that is drawn in blocks.
std::string note_on(const Matrix& m) {
  if (m.row_block == 1 && m.col_block == 1) return "";
  return "Each point is the mean of " + std::to_string(m.row_block) + " x " + std::to_string(m.col_block) + " values.";
}

std::string head_title(std::int64_t head) { return "Head " + std::to_string(head + 1); }

// The number of columns that fills the grid without gaps, if the grid is nearly square then.
std::int64_t grid_columns(std::int64_t n) {
  if (n <= 3) return n;
  const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(n))));
  for (std::int64_t c = root; c <= root + 1; ++c)
    if (n % c == 0) return c;
  return root;
}

// A grid of panels with one colour scale. A single heat map is a grid of one. The labels are for `rows` x `cols`.
class Grid {
 public:
  Grid(const char* op, const std::vector<Matrix>& all, std::int64_t rows, std::int64_t cols, const Options& options,
       bool name_heads)
      : matrices_(all),
        options_(options),
        x_(labels_of(op, "column", options.x(), cols, all[0].col_block)),
        y_(labels_of(op, "row", options.y(), rows, all[0].row_block)),
        scale_(scale_of(all, options)),
        count_(static_cast<std::int64_t>(all.size())),
        columns_(options.columns() > 0 ? std::min(options.columns(), count_) : grid_columns(count_)),
        values_(shows_values()),
        cell_(cells()),
        head_height_(name_heads ? 22 : 0),
        cells_w_(extent(columns_, panel(0).width())),
        cells_h_(extent((count_ + columns_ - 1) / columns_, panel(0).height() + head_height_)),
        title_(shorten(printable(options.title()), longest_title)),
        note_(note_on(all[0])),
        below_(column_labels(x_, cell_.w)),
        bar_(scale_, look_, cells_h_ - head_height_, options.bar_label()) {}

  Figure figure() const {
    Drawing drawing;
    drawing.add(Description{description(matrices_[0], scale_)});
    const double middle = left() + cells_w_ / 2, title_y = padding + title_size * 0.8;
    if (!title_.empty()) drawing.text(middle, title_y, title_, {title_size, Anchor::middle, look_.ink, true});
    for (std::int64_t i = 0; i < count_; ++i) draw_panel(drawing, i);
    draw_axis(drawing, middle, height() - note_height() - padding, options_.xlabel(), 0);
    draw_axis(drawing, padding + label_size * 0.8, top() + cells_h_ / 2, options_.ylabel(), -90);
    if (!note_.empty()) drawing.text(middle, height() - padding, note_, {tick_size, Anchor::middle, look_.soft_ink});
    if (options_.colorbar()) bar_.draw(drawing, left() + cells_w_ + bar_gap, top() + head_height_);
    return {width(), height(), options_.theme(), std::move(drawing)};
  }

 private:
  static constexpr double gap = 18;  // between panels

  // Numbers that run into each other can't be read: cells of a given size that are too small have none.
  bool shows_values() const {
    const double given = options_.cell_size();
    return wants_values(matrices_[0], options_) && (count_ == 1 || options_.annotate().value_or(false)) &&
           (given == 0 || std::none_of(matrices_.begin(), matrices_.end(),
                                       [given](const Matrix& m) { return widest_value(m) + 4 > given; }));
  }
  Cells cells() const {
    if (const double given = options_.cell_size(); given > 0) return {given, given};
    const double area = count_ == 1 ? 380 : std::max(150.0, 720.0 / static_cast<double>(columns_));
    return cell_size(matrices_[0], values_, count_ == 1 && !options_.x().empty(), area);
  }
  static double extent(std::int64_t n, double each) { return static_cast<double>(n) * (each + gap) - gap; }
  Panel panel(std::int64_t i) const { return {matrices_[i], scale_, x_, y_, cell_, values_, look_}; }

  double title_w() const { return std::max(title_width(title_, title_size), text_width(note_, tick_size)); }
  double left() const {
    const double labels = (options_.ylabel().empty() ? 0 : axis_height) + widest_label(y_, panel(0).row_stride());
    return padding + std::max({labels + tick_gap, below_.left, (title_w() - cells_w_) / 2});
  }
  double top() const { return padding + (title_.empty() ? 0 : title_height); }
  double width() const {
    const double right = left() + cells_w_ + (options_.colorbar() ? bar_gap + bar_.width() : 0);
    return std::max(right, left() + (cells_w_ + title_w()) / 2) + padding;
  }
  double note_height() const { return note_.empty() ? 0 : axis_height; }
  double height() const {
    return top() + cells_h_ + tick_gap + below_.height + (options_.xlabel().empty() ? 0 : axis_height) + note_height() +
           padding - 4;
  }

  void draw_panel(Drawing& drawing, std::int64_t i) const {
    const Panel p = panel(i);
    const double x = left() + static_cast<double>(i % columns_) * (p.width() + gap);
    const double y = top() + static_cast<double>(i / columns_) * (p.height() + head_height_ + gap) + head_height_;
    p.draw_cells(drawing, x, y);
    if (head_height_ > 0)
      drawing.text(x + p.width() / 2, y - 8, head_title(i), {label_size, Anchor::middle, look_.ink});
    if (i % columns_ == 0) p.draw_row_labels(drawing, x, y);
    if (i + columns_ >= count_) p.draw_column_labels(drawing, x, y + p.height(), below_);
  }
  void draw_axis(Drawing& drawing, double x, double y, const std::string& name, double angle) const {
    if (!name.empty())
      drawing.text(x, y, shorten(name, longest_title), {label_size, Anchor::middle, look_.ink, false, angle, "axis"});
  }

  const std::vector<Matrix>& matrices_;
  const Options& options_;
  const Look& look_ = look_of(options_.theme());
  std::vector<std::string> x_, y_;
  Scale scale_;
  std::int64_t count_, columns_;
  bool values_;
  Cells cell_;
  double head_height_, cells_w_, cells_h_;
  std::string title_, note_;
  ColumnLabels below_;
  ColorBar bar_;
};

}  // namespace

Figure heatmap(const Tensor& matrix, const Options& options) {
  const Matrix m = matrix_of("plot::heatmap", matrix, most_drawn, options.mask());
  return Grid("plot::heatmap", {m}, matrix.size(0), matrix.size(1), options, false).figure();
}

Figure heads(const Tensor& weights, const Options& options) {
  const char* const op = "plot::heads";
  const int rank = weights.rank();
  if (rank < 3 || rank > 4 || weights.numel() == 0)
    check::fail(op, "the weights have shape ", weights.shape(),
                ": they must be (H, Sq, Sk) or (B, H, Sq, Sk), no axis of size 0");
  const NoGrad no_grad;
  const Tensor shown = rank == 4 ? Tensor(weights[0]) : weights;
  std::vector<Matrix> matrices;
  double largest = 0;
  for (std::int64_t h = 0; h < shown.size(0); ++h) {
    const Tensor& mask = options.mask();
    const bool own = mask.defined() && mask.rank() == 3 && mask.size(0) == shown.size(0);  // one for each head
    const bool shared = mask.defined() && mask.rank() == 3 && mask.size(0) == 1;
    matrices.push_back(matrix_of(op, shown[h], most_drawn, own ? Tensor(mask[h]) : shared ? Tensor(mask[0]) : mask));
    largest = std::max(largest, matrices.back().largest());
  }
  for (Matrix& m : matrices) m.digits = digits_of(largest, false);
  check::not_negative(op, "columns", options.columns());
  Options shared = options;
  if (shared.xlabel().empty()) shared.xlabel("Key");
  if (shared.ylabel().empty()) shared.ylabel("Query");
  return Grid(op, matrices, shown.size(1), shown.size(2), shared, true).figure();
}

Figure heads(const Tensor& weights, const std::vector<std::string>& tokens, const std::string& title) {
  const auto options =
      Options().title(title).x(tokens).y(tokens).xlabel("Key").ylabel("Query").bar_label("Attention weight");
  return heads(weights, options);
}

Figure difference(const Tensor& a, const Tensor& b, const Options& options) {
  const char* const op = "plot::difference";
  check::defined(op, "a", a, "b", b);
  if (a.shape() != b.shape() || a.rank() < 2 || a.rank() > 4 || a.numel() == 0)
    check::fail(op, "a is ", a.shape(), ", b is ", b.shape(),
                ": both must be of one shape, (Sq, Sk), (H, Sq, Sk) or (B, H, Sq, Sk), with no axis of size 0");
  const NoGrad no_grad;
  Options signed_map = options;
  if (!options.colormap()) signed_map.colormap(Colormap::rdbu);
  const auto minus = [&] { return a.to(float64) - b.to(float64); };
  if (a.rank() > 2) return heads(minus(), signed_map);
  return heatmap(minus(), signed_map);
}

}  // namespace fit::plot
