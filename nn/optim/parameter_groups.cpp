#include <unordered_set>

#include "common/pattern.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/optim/optim.hpp"

namespace fit::optim {

std::pair<Parameters, Parameters> split_by_decay(const nn::Layer& net, DecayEmbeddings embeddings) {
  std::unordered_set<const void*> left_out;
  if (embeddings == DecayEmbeddings::no)
    for (const auto& [path, table] : net.named_layers<nn::Embedding>())
      for (const Tensor& p : table->parameters()) left_out.insert(p.impl());
  nn::StateDict decayed, others;
  for (const auto& [name, p] : net.named_parameters())
    (p.rank() >= 2 && left_out.count(p.impl()) == 0 ? decayed : others).emplace_back(name, p);
  return {decayed, others};
}

std::vector<std::vector<StateDict>> split_by_name(const std::vector<StateDict>& groups,
                                                  const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const StateDict& group : groups)
    for (const auto& [name, p] : group) names.push_back(name);
  const std::vector<std::size_t> matches = nn::first_matches("split_by_name", patterns, names);
  std::vector<std::vector<StateDict>> parts;
  auto next = matches.begin();
  for (const StateDict& group : groups) {
    parts.emplace_back(patterns.size() + 1);
    for (const auto& entry : group) parts.back()[*next++].push_back(entry);
  }
  return parts;
}

}  // namespace fit::optim
