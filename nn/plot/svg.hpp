#pragma once
#include <string>

#include "plot/drawing.hpp"
#include "plot/text.hpp"

namespace fit::plot {

// The document of a drawing.
std::string svg_of(const Drawing& drawing, double width, double height, Rgb ground);

}  // namespace fit::plot
