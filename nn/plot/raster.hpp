#pragma once
#include <string>

#include "plot/drawing.hpp"

namespace fit::plot {

// A PNG of a drawing, with `scale` pixels for a unit. Throws Error if it would be too large.
std::string png_of(const Drawing& drawing, double width, double height, Rgb ground, double scale);

}  // namespace fit::plot
