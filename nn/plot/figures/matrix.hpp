#pragma once
#include <limits>
#include <string>
#include <vector>

#include "fit/plot.hpp"
#include "plot/figures/drawing.hpp"

namespace fit::plot {

inline constexpr int exponents = -1;  // instead of decimals: "1.23e-6"

struct Matrix {
  std::int64_t rows, cols;
  std::vector<double> values;
  std::vector<bool> masked;                   // empty if no cell is
  int digits;                                 // of the printed values, by digits_of()
  std::int64_t row_block = 1, col_block = 1;  // rows and columns averaged into one value
  double at(std::int64_t r, std::int64_t c) const { return values[r * cols + c]; }
  // Whether the cell is masked, by the mask or by a score of -inf.
  bool is_masked(std::int64_t r, std::int64_t c) const { return !masked.empty() && masked[r * cols + c]; }
  // Whether a cell has a value to print: not one that the mask excludes.
  bool has_value(std::int64_t r, std::int64_t c) const { return !is_masked(r, c) || at(r, c) != 0; }
  double largest() const;              // of the absolute finite values
  std::string number(double v) const;  // as the values are printed
  std::string text(std::int64_t r, std::int64_t c) const;
};

// The decimals of printed values, one number for all of them. None for integers, `exponents` for very large or small.
int digits_of(double largest, bool whole);

// The checked matrix of a picture: rank 2, no axis of size 0. Above `most` rows or columns, blocks are averaged. A
// block with a non-finite value is not finite. mask is broadcast to x, or undefined: masked values are left out, and a
// block is masked if all its values are.
Matrix matrix_of(const char* op, const Tensor& x, std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                 const Tensor& mask = {});

// Labels along an axis: the given names, or 0, 1, …. A block has the label of its first element.
std::vector<std::string> labels_of(const char* op, const char* name, const std::vector<std::string>& given,
                                   std::int64_t size, std::int64_t block = 1);

bool are_numbers(const std::vector<std::string>& labels);

// Maps values to colours.
struct Scale {
  double low, high;
  Colormap map;
  Rgb not_finite;
  bool below, above;          // whether values lie beyond the ends: they have the first and the last colour
  int index(double v) const;  // index into the palette; palette_size for non-finite values
  Rgb color(double v) const;
};
Scale scale_of(const std::vector<Matrix>& matrices, const Options& options);

bool wants_values(const Matrix& m, const Options& options);

}  // namespace fit::plot
