#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plot/figures/colormap.hpp"

namespace fit::plot {

// Compresses in zlib's format (RFC 1950), which a browser's DecompressionStream calls "deflate".
std::string deflated(const std::string& bytes);

std::string base64(const std::string& bytes);

// An indexed PNG (ISO/IEC 15948), an image in an SVG: one palette index per pixel, row-major, at most 256 colours.
std::string indexed_png(std::int64_t width, std::int64_t height, const std::vector<std::uint8_t>& indices,
                        const std::vector<Rgb>& colors);

}  // namespace fit::plot
