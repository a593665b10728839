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
  const char* op = "plot::print_heatmap";
  const bool colored = has_colors(out, colors);
  const std::int64_t width = terminal_width(out);
  const auto labels = [&](const char* name, const std::vector<std::string>& given, std::int64_t size,
                          std::int64_t block) {
    std::vector<std::string> all = labels_of(op, name, given, size, block);
    for (std::string& label : all) label = shorten(label, most_label);
    return all;
  };
  // Values are left out, and then cells are averaged, until the map fits.
  Matrix m = matrix_of(op, matrix, most_cells, options.mask());
  bool values = wants_values(m, options);
  std::vector<std::string> y;
  std::int64_t cell = 2, margin = 0;
  const auto measure = [&] {
    y = labels("row", options.y(), matrix.size(0), m.row_block);
    margin = longest(y) + 1;
    cell = 2;
    if (values)
      for (std::int64_t r = 0; r < m.rows; ++r)
        for (std::int64_t c = 0; c < m.cols; ++c)
          if (!m.is_masked(r, c)) cell = std::max(cell, code_points(m.text(r, c)) + (colored ? 2 : 4));
    return width == 0 || margin + cell * m.cols <= width;
  };
  if (!measure() && values && !options.annotate()) values = false, measure();
  for (std::int64_t most = m.cols; !measure() && most > 1;)
    m = matrix_of(op, matrix, --most, options.mask()), values = false;
  const auto x = labels("column", options.x(), matrix.size(1), m.col_block);
  const Scale scale = scale_of({m}, options);
  const Rgb masked = look_of(options.theme()).masked;

  if (!options.title().empty()) out << spaces(margin) << shorten(printable(options.title()), longest_title) << '\n';
  for (std::int64_t r = 0; r < m.rows; ++r) {
    out << right_aligned(y[r], margin - 1) << ' ';
    for (std::int64_t c = 0; c < m.cols; ++c) {
      const std::string text = values && !m.is_masked(r, c) ? m.text(r, c) : "";
      if (colored) {
        const Rgb color = m.is_masked(r, c) ? masked : scale.color(m.at(r, c));
        out << background(color) << foreground(ink_on(color)) << centered(text, cell);
      } else {
        const std::string ground(static_cast<std::size_t>(values ? 2 : cell), shade(scale, m, r, c));
        out << ground << (values ? right_aligned(text, cell - 3) + ' ' : "");
      }
    }
    out << (colored ? plain : "") << '\n';
  }
  print_column_labels(out, x, margin, cell);
  const std::string down = printable(options.ylabel()), right = printable(options.xlabel());
  if (!down.empty() || !right.empty())
    out << spaces(margin) << (down.empty() ? "" : "down: " + shorten(down, longest_label))
        << (down.empty() || right.empty() ? "" : ", ")
        << (right.empty() ? "" : "right: " + shorten(right, longest_label)) << '\n';
  if (!options.colorbar()) return;
  out << spaces(margin) << (scale.below ? "≤ " : "") << m.number(scale.low) << ' ';
  if (colored) {
    for (int i = 0; i < palette_size; i += 8) out << background(palette(scale.map)[i]) << ' ';
    out << plain;
  } else {
    out << '[' << shades << ']';
  }
  out << ' ' << (scale.above ? "≥ " : "") << m.number(scale.high) << '\n';
}

}  // namespace fit::plot
