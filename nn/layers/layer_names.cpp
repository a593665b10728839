#include "layers/layer_names.hpp"

#include "fit/nn/attention.hpp"

namespace fit::nn {
namespace {

void list(const Layer& layer, const std::string& name, std::unordered_map<const Layer*, std::string>& names) {
  names.emplace(&layer, name);
  for (const auto& [child, below] : layer.children()) {
    const bool serves = child == "attention" && dynamic_cast<const ScaledDotProductAttention*>(below);
    list(*below, serves ? name : name.empty() ? child : name + '.' + child, names);
  }
}

}  // namespace

std::unordered_map<const Layer*, std::string> layer_names(const Layer& model) {
  std::unordered_map<const Layer*, std::string> names;
  list(model, "", names);
  return names;
}

}  // namespace fit::nn
