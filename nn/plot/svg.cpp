#include "plot/svg.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "fit/error.hpp"
#include "plot/encode.hpp"
#include "utf8.hpp"

namespace fit::plot {

using utf8::sequence_length;
using utf8::starts_code_point;

namespace {

std::string attribute(const char* name, double v) { return std::string(" ") + name + "=\"" + coordinate(v) + '"'; }

// Width over size of a sans-serif letter, by classes.
double relative_width(unsigned char lead) {
  if (lead >= 0xe3) return 1.0;  // East Asian, emoji
  if (lead >= 0x80) return 0.66;
  if (std::strchr("iljIf.,:;'|!()[]t ", lead)) return 0.36;
  if (std::strchr("mwMW%@", lead)) return 0.92;
  return lead >= 'A' && lead <= 'Z' ? 0.70 : 0.61;
}

std::string plain_number(double v) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::general, 6).ptr;
  return {buffer, end};
}

}  // namespace

std::string fixed(double v, int digits) {
  char buffer[400];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::fixed, digits).ptr;
  std::string s(buffer, end);
  if (s[0] == '-' && s.find_first_not_of("-0.") == std::string::npos) s.erase(0, 1);
  return s;
}

std::string coordinate(double v) {
  std::string s = fixed(v, 2);
  s.erase(s.find_last_not_of('0') + 1);
  if (s.back() == '.') s.pop_back();
  return s;
}

std::string printable(const std::string& text) {
  std::string s;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = sequence_length(text, i);
    if (n == 0)
      s += "�";
    else if (text[i] == '\n')
      s += "↵";
    else if (n == 1 && (static_cast<unsigned char>(text[i]) < 0x20 || text[i] == 0x7f))
      s += ' ';
    else
      s.append(text, i, n);
    i += std::max<std::size_t>(1, n);
  }
  return s;
}

std::string escape_xml(const std::string& text) {
  std::string s;
  for (const char c : printable(text)) {
    if (c == '&')
      s += "&amp;";
    else if (c == '<')
      s += "&lt;";
    else if (c == '>')
      s += "&gt;";
    else if (c == '"')
      s += "&quot;";
    else
      s += c;
  }
  return s;
}

std::int64_t code_points(const std::string& utf8) {
  std::int64_t n = 0;
  for (const char c : utf8) n += starts_code_point(c);
  return n;
}

std::string shorten(const std::string& utf8, std::int64_t limit) {
  if (code_points(utf8) <= limit) return utf8;
  std::string s;
  for (const char c : utf8) {
    if (starts_code_point(c) && --limit < 1) break;
    s += c;
  }
  return s + "…";
}

double text_width(const std::string& utf8, double size) {
  double w = 0;
  for (const char c : utf8)
    if (starts_code_point(c)) w += relative_width(static_cast<unsigned char>(c));
  return w * size;
}

void Canvas::text(double x, double y, const std::string& s, const TextStyle& style) {
  out_ += "<text" + attribute("x", x) + attribute("y", y) + attribute("font-size", style.size) + " fill=\"" +
          style.fill + '"';
  if (std::strcmp(style.anchor, "start") != 0) out_ += std::string(" text-anchor=\"") + style.anchor + '"';
  if (style.bold) out_ += " font-weight=\"600\"";
  if (style.rotate != 0)
    out_ += " transform=\"rotate(" + coordinate(style.rotate) + ' ' + coordinate(x) + ' ' + coordinate(y) + ")\"";
  out_ += '>' + escape_xml(s) + "</text>\n";
}

void Canvas::rect(double x, double y, double w, double h, const std::string& fill, const std::string& attributes,
                  const std::string& inside) {
  out_ += "<rect" + attributes + attribute("x", x) + attribute("y", y) + attribute("width", w) +
          attribute("height", h) + " fill=\"" + fill + '"' + (inside.empty() ? "/>" : '>' + inside + "</rect>") + '\n';
}

void Canvas::line(double x1, double y1, double x2, double y2, const std::string& stroke, double width) {
  out_ += "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) +
          " stroke=\"" + stroke + '"' + attribute("stroke-width", width) + "/>\n";
}

void Canvas::image(double x, double y, double w, double h, std::int64_t width, std::int64_t height,
                   const std::vector<std::uint8_t>& indices, const std::vector<Rgb>& colors, bool smooth) {
  out_ += "<image" + attribute("x", x) + attribute("y", y) + attribute("width", w) + attribute("height", h) +
          " preserveAspectRatio=\"none\"" + (smooth ? "" : " style=\"image-rendering:pixelated\"") + " href=\"" +
          "data:image/png;base64," + base64(indexed_png(width, height, indices, colors)) + "\"/>\n";
}

void Canvas::figure(double x, double y, const Figure& f) {
  out_ += "<g transform=\"translate(" + coordinate(x) + ' ' + coordinate(y) + ")\">\n" + f.body() + "</g>\n";
}

std::vector<Tick> round_ticks(double low, double high, int count) {
  const double span = high - low;
  const double power = std::pow(10, std::floor(std::log10(span / count)));
  double step = 10 * power;
  for (const double m : {1.0, 2.0, 2.5, 5.0})
    if (span / (m * power) <= count) {
      step = m * power;
      break;
    }
  // 0.25 has a digit more than its power of ten says
  const bool quarter = std::abs(step / power - 2.5) < 0.1;
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)) + (quarter ? 1 : 0));
  std::vector<Tick> ticks;
  for (double i = std::ceil(low / step - 1e-6); i * step <= high + step * 1e-6; ++i) {
    const double v = i * step;
    ticks.push_back({v, digits > 6 || std::abs(v) >= 1e6 ? plain_number(v) : fixed(v, digits)});
  }
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high) {
  const double decades = std::log10(high / low);
  const double step = std::max(1.0, std::ceil(decades / 8));
  const std::vector<double> multiples = decades < 1.5 ? std::vector<double>{1, 2, 3, 5} : std::vector<double>{1};
  std::vector<Tick> ticks;
  for (double e = std::floor(std::log10(low)); e <= std::log10(high) + 1e-9; e += step)
    for (const double m : multiples) {
      const double v = m * std::pow(10, e);
      if (v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)) ticks.push_back({v, plain_number(v)});
    }
  return ticks.size() < 2 ? round_ticks(low, high, 4) : ticks;
}

std::int64_t label_stride(std::int64_t n, double step, double space) {
  const auto fit_in_space = static_cast<std::int64_t>(std::ceil(space / step));
  const std::int64_t needed = std::max<std::int64_t>({1, fit_in_space, (n + most_labels - 1) / most_labels});
  if (needed == 1) return 1;
  for (const std::int64_t nice : {2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 250, 256, 500, 512, 1000})
    if (nice >= needed) return nice;
  return needed;
}

std::string Figure::svg() const {
  const std::string w = coordinate(width_), h = coordinate(height_);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + w + "\" height=\"" + h + "\" viewBox=\"0 0 " + w + ' ' +
         h +
         "\" font-family=\"'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" +
         body_ + "</svg>\n";
}

void Figure::save(const std::string& path) const { write_text("plot::save", path, svg()); }

void write_text(const char* op, const std::string& path, const std::string& text) {
  const auto fail = [&](const std::string& why) {
    throw FileError(std::string("[") + op + "] cannot write '" + path + "': " + why);
  };
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) fail(error.message());
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail(errno ? std::strerror(errno) : "the write failed");
}

}  // namespace fit::plot
