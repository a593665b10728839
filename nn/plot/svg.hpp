#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plot/colormap.hpp"

namespace fit::plot {

inline constexpr double padding = 16, title_size = 15, label_size = 12.5, tick_size = 11;
inline constexpr char ink[] = "#1f2328", soft_ink[] = "#57606a", grid_ink[] = "#e4e7eb";

// Numbers don't depend on the program's locale, so that the bytes are the same everywhere.
std::string fixed(double v, int digits);  // never "-0.00"
std::string coordinate(double v);         // at most two digits after the point, without zeros at the end

// Text that can be shown: a line's end as "↵", other control characters as spaces, bytes that are not UTF-8 (a token
// may be part of a letter) as "�".
std::string printable(const std::string& text);
std::string escape_xml(const std::string& text);
std::int64_t code_points(const std::string& utf8);
// The text cut off to `limit` code points, with "…" in place of what is missing.
std::string shorten(const std::string& utf8, std::int64_t limit);
// An estimate, on the wide side: the viewer's sans-serif font is not known.
double text_width(const std::string& utf8, double size);
inline double title_width(const std::string& utf8, double size) { return 1.12 * text_width(utf8, size); }  // bold

struct TextStyle {
  double size = tick_size;
  const char* anchor = "start";  // start, middle, end
  std::string fill = soft_ink;
  bool bold = false;
  double rotate = 0;
};

// Collects SVG elements.
class Canvas {
 public:
  void text(double x, double y, const std::string& s, const TextStyle& style);
  // `inside` is what the element contains.
  void rect(double x, double y, double w, double h, const std::string& fill, const std::string& attributes = "",
            const std::string& inside = "");
  void line(double x1, double y1, double x2, double y2, const std::string& stroke, double width = 1);
  // An image of one pixel for each index (row-major, width x height) into a palette, stretched over the area.
  void image(double x, double y, double w, double h, std::int64_t width, std::int64_t height,
             const std::vector<std::uint8_t>& indices, const std::vector<Rgb>& colors, bool smooth);
  void raw(const std::string& s) { out_ += s; }
  void figure(double x, double y, const Figure& f);
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Writes a file, whose folders are made where they are missing. Throws FileError, which names `op` and the path.
void write_text(const char* op, const std::string& path, const std::string& text);

// Round numbers in low … high, about `count` of them, with as many digits as they need.
struct Tick {
  double value;
  std::string label;
};
std::vector<Tick> round_ticks(double low, double high, int count);
// Powers of ten, with their multiples by 2 and 5 where there are few of them.
std::vector<Tick> log_ticks(double low, double high);

// Every how many-th of n labels is drawn if each needs `space` and has `step`.
inline constexpr std::int64_t most_labels = 64;
std::int64_t label_stride(std::int64_t n, double step, double space);

}  // namespace fit::plot
