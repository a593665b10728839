#pragma once
#include <string>

#include "plot/drawing.hpp"
#include "plot/text.hpp"

namespace fit::plot {

// A drawing as an SVG document.
std::string svg_of(const Drawing& drawing, double width, double height, Rgb ground);

}  // namespace fit::plot
