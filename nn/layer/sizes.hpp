#pragma once
#include "tensor/check.hpp"

// Checks of sizes for all layers.
namespace fit::nn {

inline void check_size(const char* layer, const char* name, std::int64_t size) {
  if (size < 0) check::fail(layer, name, " is ", size, ": a size can't be negative");
}

/// Returns the size, so that member initialisers can use it. The max of 2^40 avoids overflow in products of few sizes.
inline std::int64_t positive(const char* layer, const char* name, std::int64_t size) {
  if (size < 1) check::fail(layer, name, " is ", size, ": it must be positive");
  if (size > std::int64_t{1} << 40) check::fail(layer, name, " is ", size, ": it must be at most 2^40");
  return size;
}

/// Throws Error unless the last axis of x has `size` elements. The message shows `holder`, a parameter whose
/// last axis has that size, if no two of its numbers share a byte.
inline void check_last(const char* layer, const Tensor& x, const char* size_name, std::int64_t size,
                       const char* holder_name, const Tensor& holder) {
  check::defined(layer, "x", x);
  if (x.rank() == 0 || x.shape().back() != size)
    check::fail(layer, "x is ", x.shape(), ", ", holder_name, " is ", holder.shape().with(holder.rank() - 1, size),
                ": the last of x must be ", size_name, " = ", size);
}

}  // namespace fit::nn
