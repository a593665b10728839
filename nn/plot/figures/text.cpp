#include "plot/figures/text.hpp"

#include <charconv>
#include <filesystem>
#include <sstream>

#include "common/utf8.hpp"
#include "fit/base/error.hpp"
#include "io/atomic_file.hpp"

namespace fit::plot {

using utf8::starts_code_point;

std::string fixed(double v, int digits) {
  char buffer[400];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::fixed, digits).ptr;
  std::string s(buffer, end);
  if (s[0] == '-' && s.find_first_not_of("-0.") == std::string::npos) s.erase(0, 1);
  return s;
}

namespace {

// "1e-06" as "1e-6".
std::string short_exponent(std::string s) {
  const std::size_t e = s.find('e');
  if (e == std::string::npos) return s;
  const std::size_t from = s[e + 1] == '-' ? e + 2 : e + 1;
  return s.erase(from, s.find_first_not_of("+0", from) - from);
}

std::string number(double v, std::chars_format format, int precision) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v, format, precision).ptr};
}

}  // namespace

std::string scientific(double v) { return v == 0 ? "0" : short_exponent(number(v, std::chars_format::scientific, 2)); }

std::string short_number(double v, int digits) {
  return short_exponent(number(v + 0.0, std::chars_format::general, digits));
}

std::string coordinate(double v) {
  std::string s = fixed(v, 2);
  s.erase(s.find_last_not_of('0') + 1);
  if (s.back() == '.') s.pop_back();
  return s;
}

std::string counted(std::int64_t n, const std::string& one, const std::string& many) {
  return std::to_string(n) + ' ' + (n == 1 ? one : many);
}

std::string printable(const std::string& text) {
  std::string s;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = utf8::next(text, at);
    const auto within = [c](char32_t low, char32_t high) { return low <= c && c <= high; };
    if (c == '\n')
      s += "↵";
    else if (c < 0x20 || within(0x7f, 0x9f) || c == 0x2028 || c == 0x2029)
      s += ' ';
    else if (c == 0xfffd || c == 0xfffe || c == 0xffff || within(0x202a, 0x202e) || within(0x2066, 0x2069))
      s += "�";
    else
      s.append(text, begin, at - begin);
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

std::string escaped_lines(const std::string& text) {
  std::string html;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) html += escape_xml(line) + '\n';
  return html;
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

namespace {

// The widths of the characters from U+0020 to U+007E, in 1 / 1024 of the size.
constexpr std::int16_t widths[] = {326,  410, 471, 858, 652, 973, 798, 282,  400, 400, 512, 858, 326, 370, 326, 345,
                                   652,  652, 652, 652, 652, 652, 652, 652,  652, 652, 345, 345, 858, 858, 858, 544,
                                   1024, 700, 702, 715, 788, 647, 589, 794,  770, 302, 302, 672, 570, 884, 766, 806,
                                   618,  806, 712, 650, 626, 750, 700, 1012, 702, 626, 702, 400, 345, 400, 858, 512,
                                   512,  628, 650, 563, 650, 630, 360, 650,  649, 284, 284, 593, 284, 998, 649, 626,
                                   650,  650, 421, 534, 402, 649, 606, 838,  606, 606, 538, 652, 345, 652, 858};

bool has_no_width(char32_t c) {
  const auto within = [c](char32_t low, char32_t high) { return low <= c && c <= high; };
  return within(0x300, 0x36f) || within(0x200b, 0x200f) || within(0x202a, 0x202e) || within(0x2060, 0x206f) ||
         within(0xfe00, 0xfe0f) || c == 0xfeff || c == 0xad;
}

double width_of(char32_t c) {
  if (c >= 0x20 && c <= 0x7e) return widths[c - 0x20] / 1024.0;
  if (has_no_width(c)) return 0;
  return c >= 0x1100 ? 1 : 0.7;  // from U+1100 on, most characters are as wide as high
}

}  // namespace

double text_width(const std::string& utf8, double size) {
  double w = 0;
  for (std::size_t at = 0; at < utf8.size();) w += width_of(utf8::next(utf8, at));
  return w * size;
}

void write_text(const char* op, const std::string& path, const std::string& text) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw FileError(std::string("[") + op + "] " + path + " can't be written: " + error.message());
  io::write_file(op, path, text);
}

}  // namespace fit::plot
