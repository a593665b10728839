#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "fit/ops/ops.hpp"

namespace fit {

/// x as rows [N, n] along the axes that are 1 in `kept`; and the way back. Nothing is copied if these axes are the
/// last.
struct ReducedRows {
  ReducedRows(const Tensor& x, const Shape& kept) : back(static_cast<std::size_t>(x.rank())) {
    std::vector<int> order;
    for (const bool goes : {false, true})
      for (int a = 0; a < x.rank(); ++a)
        if ((kept[a] == 1) == goes) order.push_back(a);
    for (int i = 0; i < x.rank(); ++i) back[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = i;
    in_order = std::is_sorted(order.begin(), order.end());
    const Tensor permuted = in_order ? x : permute(x, order);
    moved = permuted.shape();
    const std::int64_t rows = kept.numel();
    flat = reshape(permuted, {rows, rows == 0 ? 0 : x.numel() / rows});
  }
  Tensor in_shape_of_x(const Tensor& rows) const {
    const Tensor y = reshape(rows, moved);
    return in_order ? y : permute(y, back);
  }

  Tensor flat;
  Shape moved;
  std::vector<int> back;
  bool in_order;
};

}  // namespace fit
