#pragma once
#include <iosfwd>

#include "fit/plot.hpp"

namespace fit::plot {

// Whether text for this stream may have colours.
bool has_colors(const std::ostream& out, Colors colors = Colors::automatic);

}  // namespace fit::plot
