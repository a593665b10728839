#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fit::plot {

// The outlines of font/dejavu_sans.txt: "HEX ADVANCE COMMANDS" for each character. A null is the last.
extern const char* const font_lines[];

struct Point {
  double x, y;
};

// What a character looks like in a font of size 1, y going down, 0 on the line.
struct Glyph {
  double advance = 0;
  std::vector<std::vector<Point>> contours;  // closed; those of holes run the other way round
};

// One that the font doesn't have is a box. What joins others, or only says where they go, has no width.
const Glyph& glyph(char32_t c);

// The characters of printable text.
std::vector<char32_t> characters(const std::string& utf8);

}  // namespace fit::plot
