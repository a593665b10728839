#pragma once
#include <cstdint>
#include <string>

namespace fit::plot {

// Formatting does not depend on the locale, so the output has the same bytes everywhere.
std::string fixed(double v, int digits);             // never "-0.00"
std::string scientific(double v);                    // "1.23e-6", or "0"
std::string short_number(double v, int digits = 4);  // so many significant digits at most: "0.25", "1.5e-6"
std::string coordinate(double v);                    // at most two decimals, without trailing zeros
std::string counted(std::int64_t n, const std::string& one, const std::string& many);  // "1 key", "2 keys"

// Makes text printable. A newline becomes "↵", other control characters become spaces. "�" replaces invalid UTF-8 (a
// token may be part of a letter), characters that XML forbids, and characters that reverse the text direction.
std::string printable(const std::string& text);
std::string escape_xml(const std::string& text);
std::string escaped_lines(const std::string& text);  // each line by escape_xml()
std::int64_t code_points(const std::string& utf8);
// Truncates text to `limit` code points; "…" marks the cut.
std::string shorten(const std::string& utf8, std::int64_t limit);
// The width in DejaVu Sans. An SVG uses the viewer's font, which is rarely wider.
double text_width(const std::string& utf8, double size);
inline double title_width(const std::string& utf8, double size) { return 1.12 * text_width(utf8, size); }  // bold

// Writes a file and creates missing folders. Throws FileError with `op` and the path.
void write_text(const char* op, const std::string& path, const std::string& text);

}  // namespace fit::plot
