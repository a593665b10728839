#pragma once
#include <cstdint>

#include "fit/shape.hpp"

// How K operands broadcast to one shape, reduced to the fewest axes: neighbouring axes along which every operand either
// walks on or stands still are joined. Operands are contiguous, so along the innermost joined axis each has stride 0
// or 1.
namespace fit {

template <int K>
struct Broadcast {
  int rank = 0;                             // joined axes, outermost first
  std::int64_t size[Shape::max_rank];       // of each joined axis
  std::int64_t stride[Shape::max_rank][K];  // in elements; 0 where the operand is repeated

  Broadcast(const Shape& out, const Shape* const (&operands)[K]) {
    std::int64_t full[Shape::max_rank][K];
    for (int k = 0; k < K; ++k) {
      std::int64_t step = 1;
      for (int i = 1; i <= out.rank(); ++i) {
        const std::int64_t n = i <= operands[k]->rank() ? (*operands[k])[-i] : 1;
        full[out.rank() - i][k] = n == 1 ? 0 : step;
        step *= n;
      }
    }
    for (int a = 0; a < out.rank(); ++a) {
      if (out[a] == 1) continue;
      bool joins = rank > 0;
      for (int k = 0; k < K && joins; ++k) joins = stride[rank - 1][k] == full[a][k] * out[a];
      if (!joins) size[rank++] = 1;
      size[rank - 1] *= out[a];
      for (int k = 0; k < K; ++k) stride[rank - 1][k] = full[a][k];
    }
    if (rank == 0) {  // one element
      size[0] = 1;
      for (int k = 0; k < K; ++k) stride[0][k] = 0;
      rank = 1;
    }
  }

  std::int64_t inner() const { return size[rank - 1]; }
  std::int64_t inner_stride(int k) const { return stride[rank - 1][k]; }
  /// How often the innermost axis is walked.
  std::int64_t rows() const {
    std::int64_t n = 1;
    for (int a = 0; a + 1 < rank; ++a) n *= size[a];
    return n;
  }

  /// Calls body(row, offsets) for rows begin … end - 1: offsets[k] is where operand k's row begins.
  template <class Body>
  void each_row(std::int64_t begin, std::int64_t end, const Body& body) const {
    std::int64_t at[Shape::max_rank], offset[K] = {};
    std::int64_t rest = begin;
    for (int a = rank - 2; a >= 0; --a) {
      at[a] = rest % size[a];
      rest /= size[a];
      for (int k = 0; k < K; ++k) offset[k] += at[a] * stride[a][k];
    }
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
