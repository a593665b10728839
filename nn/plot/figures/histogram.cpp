#include <algorithm>
#include <cmath>

#include "fit/graph/graph.hpp"
#include "plot/figures/frame.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

constexpr const char* histogram_op = "plot::histogram";
constexpr std::int64_t most_bins = 1000, most_chosen = 100;
constexpr std::size_t most_series = 7;

// Integers in a small range get one bin each. Other values get NumPy's "auto" bins.
std::int64_t bins_of(std::vector<double> values, double low, double high, bool whole) {
  if (whole && high - low < static_cast<double>(most_chosen)) return static_cast<std::int64_t>(high - low) + 1;
  const auto n = static_cast<double>(values.size());
  const auto quantile = [&](double q) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(q * (n - 1));
    std::nth_element(values.begin(), at, values.end());
    return *at;
  };
  const double sturges = std::ceil(std::log2(n)) + 1;
  const double width = 2 * (quantile(0.75) - quantile(0.25)) / std::cbrt(n);
  const double count = width > 0 ? std::max(sturges, std::ceil((high - low) / width)) : sturges;
  return static_cast<std::int64_t>(std::min(count, static_cast<double>(most_chosen)));
}

struct Bins {
  double low, high;
  std::int64_t count;
  std::vector<std::vector<double>> of;  // counts per bin, for each series
  double largest = 0;                   // count
  double edge(std::int64_t i) const { return low + (high - low) * static_cast<double>(i) / static_cast<double>(count); }
};

// Draws the outline of a series over its filled bars.
void draw_series(Frame& frame, const Bins& bins, std::size_t series, double floor, double opacity) {
  const Rgb color = series_color(frame.look(), series);
  Path outline{{}, color, 1.4, 1, "histogram"};
  const double base = frame.at_y(floor);
  outline.steps.push_back({Step::Kind::move, frame.at_x(bins.low), base});
  for (std::int64_t i = 0; i < bins.count; ++i) {
    const double n = bins.of[series][i];
    const double left = frame.at_x(bins.edge(i)), right = frame.at_x(bins.edge(i + 1));
    const double top = n > floor ? frame.at_y(n) : base;
    if (n > floor)
      frame.drawing.add(Box{left, top, right - left, base - top, color, opacity, "bar",
                            coordinate(bins.edge(i)) + " … " + coordinate(bins.edge(i + 1)) + ": " + fixed(n, 0)});
    outline.steps.push_back({Step::Kind::line, left, top});
    outline.steps.push_back({Step::Kind::line, right, top});
  }
  outline.steps.push_back({Step::Kind::line, frame.at_x(bins.high), base});
  frame.drawing.add(std::move(outline));
}

// The finite values of each series, and a legend.
struct Samples {
  std::vector<std::vector<double>> series;
  std::int64_t not_finite = 0;

  Samples(const StateDict& values, Frame& frame) {
    const bool together = values.size() > most_series;
    for (const auto& [name, tensor] : values) {
      check::defined(histogram_op, "the values", tensor);
      if (series.empty() || !together) series.emplace_back();
      for (const double v : tensor.to(float64).to_vector<double>())
        std::isfinite(v) ? series.back().push_back(v) : void(++not_finite);
      if (!together && !name.empty()) frame.legend.push_back({name, series_color(frame.look(), series.size() - 1)});
    }
    if (together) frame.notes.push_back("All values of " + std::to_string(values.size()) + " tensors.");
  }
  std::vector<double> joined() const {
    std::vector<double> all;
    for (const auto& s : series) all.insert(all.end(), s.begin(), s.end());
    if (all.empty())
      check::fail(histogram_op, "there is no finite value among ", not_finite, ": there must be one at least");
    return all;
  }
};

Bins empty_bins(const std::vector<double>& all, const HistogramOptions& options) {
  const auto [min, max] = std::minmax_element(all.begin(), all.end());
  double low = options.low().value_or(*min), high = options.high().value_or(*max);
  const bool whole = !options.low() && !options.high() && !options.bins() && std::abs(low) < 1e9 &&
                     std::abs(high) < 1e9 &&
                     std::all_of(all.begin(), all.end(), [](double v) { return v == std::floor(v); });
  if (!options.low() && !options.high() && low == high && !whole) {
    const double around = low == 0 ? 0.5 : std::abs(low) / 2;
    low -= around, high += around;
  }
  Bins bins{low, high, options.bins() ? *options.bins() : bins_of(all, low, high, whole), {}};
  if (whole && bins.count == static_cast<std::int64_t>(high - low) + 1) bins.low -= 0.5, bins.high += 0.5;
  if (!(bins.low < bins.high) || !std::isfinite(bins.high - bins.low))
    check::fail(histogram_op, "the bins go from ", bins.low, " to ", bins.high,
                ": low must be less than high, and both finite");
  return bins;
}

// Counts the values in each bin. Returns the number of values outside.
std::int64_t fill(Bins& bins, const std::vector<std::vector<double>>& series) {
  std::int64_t outside = 0;
  for (const auto& s : series) {
    bins.of.emplace_back(static_cast<std::size_t>(bins.count), 0.0);
    for (const double v : s) {
      if (v < bins.low || v > bins.high) {
        ++outside;
        continue;
      }
      const double at = (v - bins.low) / (bins.high - bins.low) * static_cast<double>(bins.count);
      const auto i = std::min<std::int64_t>(bins.count - 1, static_cast<std::int64_t>(at));
      bins.largest = std::max(bins.largest, ++bins.of.back()[i]);
    }
  }
  return outside;
}

}  // namespace

Figure histogram(const StateDict& values, const HistogramOptions& options) {
  if (values.empty()) check::fail(histogram_op, "no values were given: there must be one at least");
  if (options.bins() && (*options.bins() < 1 || *options.bins() > most_bins))
    check::fail(histogram_op, "bins is ", *options.bins(), ": it must be in 1 … ", most_bins);
  const NoGrad no_grad;
  Frame frame;
  const Samples samples(values, frame);
  Bins bins = empty_bins(samples.joined(), options);
  const std::int64_t outside = fill(bins, samples.series);
  const auto note = [&frame](std::int64_t n, const char* what) {
    if (n > 0) frame.notes.push_back(counted(n, "value is", "values are") + what);
  };
  note(samples.not_finite, " not finite, and left out.");
  note(outside, " outside, and left out.");

  frame.title = options.title(), frame.xlabel = options.xlabel(), frame.ylabel = options.ylabel();
  frame.theme = options.theme();
  for (std::size_t i = 0; i < frame.legend.size(); ++i) frame.legend[i].color = series_color(frame.look(), i);
  frame.x.include(bins.low), frame.x.include(bins.high);
  frame.x.finish(histogram_op, "x", 0.02, 7);
  const double floor = options.log_y() ? 0.5 : 0;
  frame.y.log = options.log_y();
  frame.y.include(floor), frame.y.include(std::max(1.0, bins.largest) * (options.log_y() ? 1.5 : 1.05));
  frame.y.finish(histogram_op, "y", 0, 6);
  frame.begin();
  const double opacity = samples.series.size() == 1 ? 0.65 : 0.3;
  for (std::size_t i = 0; i < samples.series.size(); ++i) draw_series(frame, bins, i, floor, opacity);
  return frame.end();
}

Figure histogram(const Tensor& values, const HistogramOptions& options) {
  return histogram(StateDict{{"", values}}, options);
}

}  // namespace fit::plot
