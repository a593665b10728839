#pragma once
#include <utility>
#include <vector>

#include "fit/nn/attention/attention_context.hpp"

namespace fit::nn {

/// call(context, x...) of a layer that takes whole sequences (B, S, C) only. x and the result are [N, C], without
/// padding. A tensor that is given twice is so for the layer, too.
template <class Call, class... X>
Tensor call_with_whole_sequences(const AttentionContext& given, const Call& call, const X&... x) {
  AttentionContext context = given;
  context.padding.reset();
  std::vector<std::pair<const void*, Tensor>> restored;
  const auto restore = [&](const Tensor& rows) {
    for (const auto& [from, whole] : restored)
      if (from == rows.impl()) return whole;
    return restored.emplace_back(rows.impl(), given.padding->restore(rows)).second;
  };
  return given.padding->remove(call(context, restore(x)...));
}

}  // namespace fit::nn
