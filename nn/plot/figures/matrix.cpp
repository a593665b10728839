#include "plot/figures/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::plot {

namespace {

// The mask as [rows, cols] bytes; empty if there is none.
std::vector<std::uint8_t> mask_of(const char* op, const Tensor& mask, const Shape& shape) {
  if (!mask.defined()) return {};
  check::dtype(op, "mask", mask, boolean);
  bool fits = mask.rank() <= 2;
  for (int axis = 1; fits && axis <= mask.rank(); ++axis)
    fits = mask.size(-axis) == 1 || mask.size(-axis) == shape[-axis];
  if (!fits) check::fail(op, "mask is ", mask.shape(), ", the matrix is ", shape, ": it must broadcast to the matrix");
  std::vector<std::uint8_t> attends;
  for (const double v : broadcast_to(mask, shape).to(float64).to_vector<double>()) attends.push_back(v != 0);
  return attends;
}

}  // namespace

Matrix matrix_of(const char* op, const Tensor& x, std::int64_t most, const Tensor& mask) {
  if (x.rank() != 2 || x.numel() == 0)
    check::fail(op, "the matrix has shape ", x.shape(), ": it must have two axes, rows and columns, none of size 0");
  const NoGrad no_grad;
  const std::int64_t all_rows = x.size(0), all_cols = x.size(1);
  const std::vector<std::uint8_t> attends = mask_of(op, mask, x.shape());
  Matrix m{};
  m.row_block = (all_rows - 1) / most + 1, m.col_block = (all_cols - 1) / most + 1;
  m.rows = (all_rows - 1) / m.row_block + 1, m.cols = (all_cols - 1) / m.col_block + 1;
  m.values.assign(static_cast<std::size_t>(m.rows * m.cols), 0);
  std::vector<std::int64_t> counts(m.values.size(), 0);
  for (std::int64_t r = 0; r < m.rows; ++r) {  // converts a few rows at a time to float64
    const std::int64_t begin = r * m.row_block, end = std::min(all_rows, begin + m.row_block);
    const std::vector<double> part = Tensor(x[{range(begin, end)}]).to(float64).to_vector<double>();
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool counts_here = attends.empty() || attends[static_cast<std::size_t>(begin * all_cols) + i];
      if (!counts_here || part[i] == -std::numeric_limits<double>::infinity()) continue;
      const auto to = static_cast<std::size_t>(r * m.cols + static_cast<std::int64_t>(i) % all_cols / m.col_block);
      m.values[to] += part[i], ++counts[to];
    }
  }
  if (std::find(counts.begin(), counts.end(), 0) != counts.end()) m.masked.assign(counts.size(), false);
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0)
      m.values[i] /= static_cast<double>(counts[i]);
    else
      m.masked[i] = true, m.values[i] = attends.empty() ? -std::numeric_limits<double>::infinity() : 0;
  const bool whole =
      m.row_block == 1 && m.col_block == 1 &&
      std::all_of(m.values.begin(), m.values.end(), [](double v) { return !std::isfinite(v) || v == std::floor(v); });
  m.digits = digits_of(m.largest(), whole);
  return m;
}

int digits_of(double largest, bool whole) {
  const int power = largest == 0 ? 0 : static_cast<int>(std::floor(std::log10(largest)));
  if (power >= 6) return exponents;
  if (whole) return 0;
  // Four digits of the largest value. Values below 1, such as weights, keep three decimals down to 0.01.
  const int digits = power >= 0 ? std::max(0, 3 - power) : std::max(3, 1 - power);
  return digits > 5 ? exponents : digits;
}

double Matrix::largest() const {
  double most = 0;
  for (const double v : values)
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  return most;
}

std::string Matrix::text(std::int64_t r, std::int64_t c) const {
  const double v = at(r, c);
  if (!has_value(r, c)) return "masked";
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v < 0 ? "−∞" : "∞";
  return number(v);
}

std::string Matrix::number(double v) const { return digits == exponents ? scientific(v) : fixed(v, digits); }

std::vector<std::string> labels_of(const char* op, const char* name, const std::vector<std::string>& given,
                                   std::int64_t size, std::int64_t block) {
  if (!given.empty() && static_cast<std::int64_t>(given.size()) != size)
    check::fail(op, given.size(), ' ', name, " labels were given for ", size, ": there must be one for each, or none");
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < size; i += block)
    labels.push_back(given.empty() ? std::to_string(i) : shorten(printable(given[i]), 20));
  return labels;
}

bool are_numbers(const std::vector<std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(),
                     [](const std::string& s) { return s.find_first_not_of("0123456789.-") == std::string::npos; });
}

int Scale::index(double v) const {
  if (!std::isfinite(v)) return palette_size;
  const double t = std::clamp((v - low) / (high - low), 0.0, 1.0);
  return static_cast<int>(std::lround(t * (palette_size - 1)));
}

Rgb Scale::color(double v) const {
  const int i = index(v);
  return i == palette_size ? not_finite : palette(map)[i];
}

Scale scale_of(const std::vector<Matrix>& matrices, const Options& options) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Matrix& m : matrices)
    for (std::size_t i = 0; i < m.values.size(); ++i)
      if (const double v = m.values[i]; std::isfinite(v) && (m.masked.empty() || !m.masked[i]))
        low = std::min(low, v), high = std::max(high, v);
  if (low > high) low = 0, high = 1;
  const double least = low, most = high;
  const bool constant = high - low <= 1e-6 * std::max(std::abs(low), std::abs(high));
  const Colormap given = options.colormap().value_or(weights_map);
  const Colormap map = options.theme() == Theme::dark ? in_dark(given) : given;
  if (diverges(map)) {
    high = std::max(std::abs(low), std::abs(high));
    if (options.vmin()) high = std::abs(*options.vmin());
    if (options.vmax()) high = std::abs(*options.vmax());
    low = -high;
  }
  // The smallest of several weights is not nothing: the first colour is that of 0.
  if (low > 0 && (!constant || options.vmax())) low = 0;
  low = options.vmin().value_or(low);
  high = options.vmax().value_or(high);
  // A constant matrix takes the middle of the scale, regardless of rounding.
  if (high - low <= 1e-6 * std::max(std::abs(low), std::abs(high))) {
    const double around = high == 0 ? 1 : std::abs(high);
    low = options.vmin().value_or(high - around);
    high = options.vmax().value_or(high + around);
  }
  if (!(high > low) || !std::isfinite(high - low))
    check::fail("plot", "the scale goes from ", low, " to ", high, ": vmin must be less than vmax, and both finite");
  const double rounding = 1e-6 * (high - low);
  return {low, high, map, look_of(options.theme()).not_finite, least<low - rounding, most> high + rounding};
}

bool wants_values(const Matrix& m, const Options& options) {
  return options.annotate().value_or(std::max(m.rows, m.cols) <= 12);
}

}  // namespace fit::plot
