#pragma once
#include "kernels/strided_loop.hpp"

namespace fit {

class Tensor;

/// Whether NumPy's rule broadcasts `from` to exactly `to`.
inline bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int i = 1; i <= from.rank(); ++i)
    if (from[-i] != 1 && from[-i] != to[-i]) return false;
  return true;
}

namespace detail {
/// y = x, repeated along the axes in which x has size 1. Both have one type.
void write_repeated(Tensor& y, const Tensor& x);
}  // namespace detail

// Loops over K operands that broadcast to one shape. Operands are contiguous, so each has stride 0 or 1 along the
// innermost joined axis.
template <int K>
struct Broadcast : StridedLoop<K> {
  Broadcast(const Shape& out, const Shape* const (&operands)[K]) : StridedLoop<K>(out, strides(out, operands)) {}

 private:
  static StridesOf<K> strides(const Shape& out, const Shape* const (&operands)[K]) {
    StridesOf<K> full{};
    for (int k = 0; k < K; ++k) {
      std::int64_t step = 1;
      for (int i = 1; i <= out.rank(); ++i) {
        const std::int64_t n = i <= operands[k]->rank() ? (*operands[k])[-i] : 1;
        full[out.rank() - i][k] = n == 1 ? 0 : step;
        step *= n;
      }
    }
    return full;
  }
};

}  // namespace fit
