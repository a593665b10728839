#pragma once
#include <cstdint>
#include <string>

namespace fit::plot {

// Numbers don't depend on the program's locale, so that the bytes are the same everywhere.
std::string fixed(double v, int digits);  // never "-0.00"
std::string coordinate(double v);         // at most two digits after the point, without zeros at the end

// Text that can be shown: a line's end as "↵", other control characters as spaces; as "�" bytes that are not UTF-8 (a
// token may be part of a letter), what XML doesn't allow, and what would turn around the text that follows.
std::string printable(const std::string& text);
std::string escape_xml(const std::string& text);
std::int64_t code_points(const std::string& utf8);
// The text cut off to `limit` code points, with "…" in place of what is missing.
std::string shorten(const std::string& utf8, std::int64_t limit);
// That of the letters of PNG files. Those of an SVG are the viewer's: few are wider.
double text_width(const std::string& utf8, double size);
inline double title_width(const std::string& utf8, double size) { return 1.12 * text_width(utf8, size); }  // bold

// Writes a file, whose folders are made where they are missing. Throws FileError, which names `op` and the path.
void write_text(const char* op, const std::string& path, const std::string& text);

}  // namespace fit::plot
