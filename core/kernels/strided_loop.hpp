#pragma once
#include <array>
#include <cstdint>

#include "fit/base/shape.hpp"

namespace fit {

/// Strides of K operands along each axis, in elements.
template <int K>
using StridesOf = std::array<std::array<std::int64_t, K>, Shape::max_rank>;

// A loop over K operands with as few axes as possible: adjacent axes with compatible strides in every operand are
// joined, and axes of size 1 are dropped.
template <int K>
struct StridedLoop {
  int rank = 0;                             // joined axes, outermost first
  std::int64_t size[Shape::max_rank];       // of each joined axis
  std::int64_t stride[Shape::max_rank][K];  // in elements; 0 where the operand is repeated

  StridedLoop(const Shape& sizes, const StridesOf<K>& strides) {
    for (int a = 0; a < sizes.rank(); ++a) {
      if (sizes[a] == 1) continue;
      bool joins = rank > 0;
      for (int k = 0; k < K && joins; ++k) joins = stride[rank - 1][k] == strides[a][k] * sizes[a];
      if (!joins) size[rank++] = 1;
      size[rank - 1] *= sizes[a];
      for (int k = 0; k < K; ++k) stride[rank - 1][k] = strides[a][k];
    }
    if (rank == 0) {  // one element
      size[0] = 1;
      for (int k = 0; k < K; ++k) stride[0][k] = 0;
      rank = 1;
    }
  }

  std::int64_t inner() const { return size[rank - 1]; }
  std::int64_t inner_stride(int k) const { return stride[rank - 1][k]; }
  /// The number of runs of the innermost axis.
  std::int64_t rows() const {
    std::int64_t n = 1;
    for (int a = 0; a + 1 < rank; ++a) n *= size[a];
    return n;
  }

  /// The start of a row: its index along each axis except the innermost, and its offset in each operand.
  void locate(std::int64_t row, std::int64_t (&at)[Shape::max_rank], std::int64_t (&offset)[K]) const {
    for (int k = 0; k < K; ++k) offset[k] = 0;
    for (int a = rank - 2; a >= 0; --a) {
      at[a] = row % size[a];
      row /= size[a];
      for (int k = 0; k < K; ++k) offset[k] += at[a] * stride[a][k];
    }
  }

  /// Calls body(row, offsets) for rows begin … end - 1. offsets[k] is the start of the row in operand k.
  template <class Body>
  void each_row(std::int64_t begin, std::int64_t end, const Body& body) const {
    std::int64_t at[Shape::max_rank], offset[K];
    locate(begin, at, offset);
    for (std::int64_t row = begin; row < end; ++row) {
      body(row, offset);
      for (int a = rank - 2; a >= 0; --a) {
        for (int k = 0; k < K; ++k) offset[k] += stride[a][k];
        if (++at[a] < size[a]) break;
        at[a] = 0;
        for (int k = 0; k < K; ++k) offset[k] -= size[a] * stride[a][k];
      }
    }
  }
};

}  // namespace fit
