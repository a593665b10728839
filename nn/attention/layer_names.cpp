#include "attention/layer_names.hpp"

#include <unordered_map>

#include "fit/nn/attention/attention.hpp"

namespace fit::nn {
namespace {

void add_names(const Layer& layer, const std::string& name, std::unordered_map<const Layer*, std::string>& names) {
  names.emplace(&layer, name);
  for (const auto& [child, below] : layer.children()) {
    const bool serves = child == "attention" && dynamic_cast<const ScaledDotProductAttention*>(below);
    add_names(*below, serves ? name : name.empty() ? child : name + '.' + child, names);
  }
}

}  // namespace

std::unordered_map<const Layer*, std::string> layer_names(const Layer& model) {
  std::unordered_map<const Layer*, std::string> names;
  add_names(model, "", names);
  return names;
}

}  // namespace fit::nn
