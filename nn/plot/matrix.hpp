#pragma once
#include <string>
#include <vector>

#include "fit/plot.hpp"
#include "plot/colormap.hpp"

namespace fit::plot {

struct Matrix {
  std::int64_t rows, cols;
  std::vector<double> values;
  bool whole;  // all values are whole numbers: shown without digits after the point
  double at(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * cols + c)]; }
  std::string text(std::int64_t r, std::int64_t c) const;
};

// The checked matrix of a picture: rank 2, no axis of size 0.
Matrix matrix_of(const char* op, const Tensor& x);

// Names along an axis: those given, or 0, 1, ….
std::vector<std::string> labels_of(const char* op, const char* name, const std::vector<std::string>& given,
                                   std::int64_t size);

bool are_numbers(const std::vector<std::string>& labels);

// From values to colours.
struct Scale {
  double low, high;
  Colormap map;
  int index(double v) const;  // into the palette; palette_size for what is not finite
  Rgb color(double v) const;
};
Scale scale_of(const std::vector<Matrix>& matrices, const Options& options);

bool wants_values(const Matrix& m, const Options& options);

}  // namespace fit::plot
