#pragma once
#include "kernels/copy.hpp"

namespace fit::kernels {

/// y[i . sy] += x[i . sx] for every index i below `sizes`. x and y must not overlap; no stride in sy is 0.
template <class T>
void add(const Shape& sizes, T* y, const Strides& sy, const T* x, const Strides& sx);

}  // namespace fit::kernels
