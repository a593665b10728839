#pragma once
#include <string>
#include <unordered_map>

#include "fit/graph/observer.hpp"
#include "fit/nn/layer/layer.hpp"

namespace fit::nn {

/// The name of the innermost running layer that is among these; empty if none is.
inline std::string innermost_name(const std::unordered_map<const Layer*, std::string>& names) {
  for (const LayerCall* call = innermost_call(); call; call = call->outer)
    if (const auto found = names.find(&call->layer); found != names.end()) return found->second;
  return {};
}

}  // namespace fit::nn
