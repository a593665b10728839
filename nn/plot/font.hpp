#pragma once
#include <string>
#include <vector>

namespace fit::plot {

// The lines of font/dejavu_sans.txt, one character each: "HEX ADVANCE COMMANDS". A null pointer ends the list.
extern const char* const font_lines[];

struct Point {
  double x, y;
};

// A character in a font of size 1. y points down; 0 is the baseline.
struct Glyph {
  double advance = 0;
  std::vector<std::vector<Point>> contours;  // closed; holes have the opposite orientation
};

// A character that the font lacks is drawn as a box. Combining and formatting characters have no width.
const Glyph& glyph(char32_t c);

// The characters of printable text.
std::vector<char32_t> characters(const std::string& utf8);

}  // namespace fit::plot
