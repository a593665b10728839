#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "common/utf8.hpp"
#include "plot/figures/matrix.hpp"

namespace fit::plot {
namespace {

constexpr char shades[] = " .:-=+*#%@";
constexpr std::int64_t most_cells = 32, most_label = 12;

std::string color_code(int ground, Rgb c) {
  return "\x1b[" + std::to_string(ground) + ";2;" + std::to_string(c.r) + ';' + std::to_string(c.g) + ';' +
         std::to_string(c.b) + 'm';
}
std::string background(Rgb c) { return color_code(48, c); }
std::string foreground(Rgb c) { return color_code(38, c); }
constexpr char plain[] = "\x1b[0m";

std::string spaces(std::int64_t n) { return std::string(static_cast<std::size_t>(std::max<std::int64_t>(0, n)), ' '); }
std::string right_aligned(const std::string& s, std::int64_t width) { return spaces(width - code_points(s)) + s; }
std::string centered(const std::string& s, std::int64_t width) {
  const std::int64_t before = std::max<std::int64_t>(0, (width - code_points(s)) / 2);
  return spaces(before) + s + spaces(width - code_points(s) - before);
}

// The columns of the terminal that the stream writes to; 0: not known, or no terminal.
std::int64_t terminal_width(const std::ostream& out) {
  const int file = &out == &std::cout ? STDOUT_FILENO : STDERR_FILENO;
  const bool is_terminal = (&out == &std::cout || &out == &std::cerr || &out == &std::clog) && isatty(file);
  winsize size{};
  if (is_terminal && ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  return columns ? std::strtol(columns, nullptr, 10) : 0;
}

char shade(const Scale& scale, const Matrix& m, std::int64_t r, std::int64_t c) {
  if (m.is_masked(r, c)) return '/';
  const int i = scale.index(m.at(r, c));
  return i == palette_size ? '?' : shades[i * (static_cast<int>(sizeof shades) - 1) / palette_size];
}

std::int64_t longest(const std::vector<std::string>& labels) {
  std::int64_t n = 0;
  for (const auto& s : labels) n = std::max(n, code_points(s));
  return n;
}

// Column labels: horizontal if they fit, else every k-th number, or words written vertically.
void print_column_labels(std::ostream& out, const std::vector<std::string>& labels, std::int64_t margin,
                         std::int64_t cell) {
  const std::int64_t width = longest(labels);
  const std::int64_t stride = are_numbers(labels) ? width / cell + 1 : 1;
  const bool flat = width < stride * cell;
  std::vector<std::size_t> at(labels.size(), 0);  // position of each label's next letter
  for (std::int64_t line = 0; line < (flat ? 1 : width); ++line) {
    std::string text = spaces(margin);
    for (std::size_t i = 0; i < labels.size(); i += static_cast<std::size_t>(stride)) {
      const std::size_t begin = at[i];
      if (begin < labels[i].size()) utf8::next(labels[i], at[i]);
      const std::string letter = labels[i].substr(begin, at[i] - begin);
      text += stride > 1 ? labels[i] + spaces(stride * cell - code_points(labels[i]))
                         : centered(flat ? labels[i] : letter, cell);
    }
    out << text.substr(0, text.find_last_not_of(' ') + 1) << '\n';
  }
}

constexpr const char* print_heatmap_op = "plot::print_heatmap";

// A heat map as lines of text. Values are left out, and then cells are averaged, until it is at most `width` wide.
class TextMap {
 public:
  TextMap(std::ostream& out, std::int64_t width, const Tensor& matrix, const Options& options, bool colored)
      : out_(out), width_(width), matrix_(matrix), options_(options), colored_(colored) {
    average(most_cells);
    values_ = wants_values(m_, options);
    if (!measure() && values_ && !options.annotate()) values_ = false, measure();
    for (std::int64_t most = m_.cols; !measure() && most > 1;) average(--most), values_ = false;
    x_ = labels("column", options.x(), matrix.size(1), m_.col_block);
    scale_ = scale_of({m_}, options);
  }

  void print() const {
    if (!options_.title().empty())
      out_ << spaces(margin_) << shorten(printable(options_.title()), longest_title) << '\n';
    for (std::int64_t r = 0; r < m_.rows; ++r) print_row(r);
    print_column_labels(out_, x_, margin_, cell_);
    print_axes();
    if (options_.colorbar()) print_colorbar();
  }

 private:
  void average(std::int64_t most) { m_ = matrix_of(print_heatmap_op, matrix_, most, options_.mask()); }

  static std::vector<std::string> labels(const char* name, const std::vector<std::string>& given, std::int64_t size,
                                         std::int64_t block) {
    std::vector<std::string> all = labels_of(print_heatmap_op, name, given, size, block);
    for (std::string& label : all) label = shorten(label, most_label);
    return all;
  }

  // Sets the widths of the margin and of a cell. Returns whether the map fits.
  bool measure() {
    y_ = labels("row", options_.y(), matrix_.size(0), m_.row_block);
    margin_ = longest(y_) + 1;
    cell_ = 2;
    if (values_)
      for (std::int64_t r = 0; r < m_.rows; ++r)
        for (std::int64_t c = 0; c < m_.cols; ++c)
          if (!m_.is_masked(r, c)) cell_ = std::max(cell_, code_points(m_.text(r, c)) + (colored_ ? 2 : 4));
    return width_ == 0 || margin_ + cell_ * m_.cols <= width_;
  }

  void print_row(std::int64_t r) const {
    out_ << right_aligned(y_[r], margin_ - 1) << ' ';
    for (std::int64_t c = 0; c < m_.cols; ++c) {
      const std::string text = values_ && !m_.is_masked(r, c) ? m_.text(r, c) : "";
      if (colored_) {
        const Rgb color = m_.is_masked(r, c) ? look_of(options_.theme()).masked : scale_.color(m_.at(r, c));
        out_ << background(color) << foreground(ink_on(color)) << centered(text, cell_);
      } else {
        const std::string ground(static_cast<std::size_t>(values_ ? 2 : cell_), shade(scale_, m_, r, c));
        out_ << ground << (values_ ? right_aligned(text, cell_ - 3) + ' ' : "");
      }
    }
    out_ << (colored_ ? plain : "") << '\n';
  }

  void print_axes() const {
    const std::string down = printable(options_.ylabel()), right = printable(options_.xlabel());
    if (down.empty() && right.empty()) return;
    out_ << spaces(margin_) << (down.empty() ? "" : "down: " + shorten(down, longest_label))
         << (down.empty() || right.empty() ? "" : ", ")
         << (right.empty() ? "" : "right: " + shorten(right, longest_label)) << '\n';
  }

  void print_colorbar() const {
    out_ << spaces(margin_) << (scale_.below ? "≤ " : "") << m_.number(scale_.low) << ' ';
    if (colored_) {
      for (int i = 0; i < palette_size; i += 8) out_ << background(palette(scale_.map)[i]) << ' ';
      out_ << plain;
    } else {
      out_ << '[' << shades << ']';
    }
    out_ << ' ' << (scale_.above ? "≥ " : "") << m_.number(scale_.high) << '\n';
  }

  std::ostream& out_;
  const std::int64_t width_;
  const Tensor& matrix_;
  const Options& options_;
  const bool colored_;
  Matrix m_;
  bool values_ = false;
  std::vector<std::string> x_, y_;
  std::int64_t cell_ = 2, margin_ = 0;
  Scale scale_;
};

}  // namespace

bool has_colors(const std::ostream& out, Colors colors) {
  if (colors != Colors::automatic) return colors == Colors::always;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if ((no_color && *no_color) || (term && std::strcmp(term, "dumb") == 0)) return false;
  if (&out == &std::cout) return isatty(STDOUT_FILENO);
  return (&out == &std::cerr || &out == &std::clog) && isatty(STDERR_FILENO);
}

void print_heatmap(std::ostream& out, const Tensor& matrix, const Options& options, Colors colors) {
  const bool colored = has_colors(out, colors);
  TextMap(out, terminal_width(out), matrix, options, colored).print();
}

}  // namespace fit::plot
