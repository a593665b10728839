#pragma once
#include "tensor/check.hpp"

// Checks that the layers share.
namespace fit::nn {

inline void check_size(const char* layer, const char* name, std::int64_t size) {
  if (size < 0) check::fail(layer, name, " is ", size, ": a size can't be negative");
}

/// The size itself, so that it can be checked where members begin. Few of them can be multiplied without overflow.
inline std::int64_t positive(const char* layer, const char* name, std::int64_t size) {
  if (size < 1) check::fail(layer, name, " is ", size, ": it must be positive");
  if (size > std::int64_t{1} << 40) check::fail(layer, name, " is ", size, ": it must be at most 2^40");
  return size;
}

/// The last axis of x must have `size` elements, which `holder` (a parameter of that shape) asks for.
inline void check_last(const char* layer, const Tensor& x, const char* size_name, std::int64_t size,
                       const char* holder_name, const Tensor& holder) {
  check::defined(layer, "x", x);
  if (x.rank() == 0 || x.shape().back() != size)
    check::fail(layer, "x is ", x.shape(), ", ", holder_name, " is ", holder.shape(), ": the last of x must be ",
                size_name, " = ", size);
}

}  // namespace fit::nn
