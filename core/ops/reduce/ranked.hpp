#pragma once
#include <cstdint>
#include <utility>

#include "fit/ops/ops.hpp"

namespace fit::detail {

/// {values, ids (int64)} of ranks `first` … first + k - 1 along an axis, in the order of sort(); k is 1 or 2. All are
/// the last, a NaN, if the slice has NaN. The gradient flows through the values, as the operation `op`.
std::pair<Tensor, Tensor> ranked(const char* op, const Tensor& x, int axis, std::int64_t first, std::int64_t k);

}  // namespace fit::detail
