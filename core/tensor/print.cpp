// Printing: NumPy's layout, PyTorch's four digits.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>

#include "fit/tensor/tensor.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

constexpr std::int64_t summary_above = 1000,
                       edge = 3;  // larger tensors print only `edge` elements at each end of an axis
constexpr int digits = 4, line_width = 80;

class Printer {
 public:
  explicit Printer(const Tensor& x) : x_(x), summary_(x.numel() > summary_above) {
    collect(0, 0);
    dispatch_stored(x.dtype(), [&](auto kind) { format<decltype(kind)>(); });
    for (const std::string& cell : cells_) width_ = std::max(width_, cell.size());
  }

  std::string text() {
    next_ = 0;
    return block(0);
  }

 private:
  bool cut(int axis) const { return summary_ && x_.shape()[axis] > 2 * edge; }

  // The indices of the printed elements, in row-major order.
  void collect(int axis, std::int64_t at) {
    if (axis == x_.rank()) {
      shown_.push_back(at);
      return;
    }
    const std::int64_t n = x_.shape()[axis];
    for (std::int64_t i = 0; i < n; ++i) {
      if (cut(axis) && i == edge) i = n - edge;
      collect(axis + 1, at * n + i);
    }
  }

  template <class T>
  void format() {
    const T* const p = x_.data<T>().data();
    if constexpr (std::is_same_v<T, bool>) {
      for (const std::int64_t i : shown_) cells_.push_back(p[i] ? "True" : "False");
    } else if constexpr (std::is_integral_v<T>) {
      for (const std::int64_t i : shown_) cells_.push_back(std::to_string(p[i]));
    } else {
      // NumPy's rule, relaxed for integers: scientific notation if magnitudes differ widely or are extreme.
      double largest = 0, smallest = INFINITY;
      bool whole = true;
      for (const std::int64_t i : shown_) {
        const double v = std::abs(static_cast<double>(p[i]));
        if (!std::isfinite(v)) continue;
        whole = whole && v == std::floor(v);
        largest = std::max(largest, v);
        if (v > 0) smallest = std::min(smallest, v);
      }
      const bool powers = largest >= 1e8 || (!whole && (smallest < 1e-4 || largest / smallest > 1000));
      for (const std::int64_t i : shown_) cells_.push_back(number(p[i], powers, whole));
    }
  }

  static std::string number(double v, bool powers, bool whole) {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    char text[64];
    const auto form = powers ? std::chars_format::scientific : std::chars_format::fixed;
    const bool point = whole && !powers;
    char* const end = std::to_chars(text, text + sizeof text, v, form, point ? 0 : digits).ptr;
    return std::string(text, end) + (point ? "." : "");
  }

  std::string cell() {
    const std::string& c = cells_[next_++];
    return std::string(width_ - c.size(), ' ') + c;
  }

  // Prints the axes from `axis` on. Later lines are indented below the opening bracket.
  std::string block(int axis) {
    if (axis == x_.rank()) return cell();
    const bool last = axis == x_.rank() - 1;
    const std::string indent(static_cast<std::size_t>(axis) + 1, ' ');
    const std::string new_line = "\n" + indent;
    const std::string between = last ? ", " : "," + std::string(static_cast<std::size_t>(x_.rank() - axis - 2), '\n');
    const std::int64_t n = x_.shape()[axis];
    std::size_t space = line_width;  // characters left in the current line
    std::string s = "[";
    for (std::int64_t i = 0; i < n; ++i) {
      const bool gap = cut(axis) && i == edge;
      if (gap) i = n - edge - 1;
      const std::string item = gap ? "..." : block(axis + 1);
      if (last && i > 0 && indent.size() + item.size() + 2 > space) {
        s += "," + new_line;
        space = line_width;
      } else if (i > 0) {
        s += last ? between : between + new_line;
      }
      space -= item.size() + 2;
      s += item;
    }
    return s + "]";
  }

  const Tensor& x_;
  bool summary_;
  std::vector<std::int64_t> shown_;
  std::vector<std::string> cells_;
  std::size_t width_ = 0, next_ = 0;
};

}  // namespace

std::string Tensor::str() const {
  if (!defined()) return "undefined";
  std::string s = numel() == 0 ? "[], shape " + shape().str() : Printer(*this).text();
  if (dtype() != DType::float32) s += std::string(", ") + name_of(dtype());
  return s;
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << x.str(); }

namespace detail {

// For fit_show(). The text lives until the next call.
const char* text_of(const Tensor& x) {
  static std::string text;
  try {
    text = x.str();
    if (x.defined()) text += ", shape " + x.shape().str();
  } catch (const std::exception& e) {
    text = e.what();
  }
  return text.c_str();
}

}  // namespace detail

}  // namespace fit
