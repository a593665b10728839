#include <unordered_set>

#include "common/pattern.hpp"
#include "fit/nn/layer.hpp"
#include "fit/nn/linear.hpp"
#include "fit/optim.hpp"

namespace fit {

std::vector<std::string> detail::patterns_of(const std::vector<std::pair<std::string, double>>& rates) {
  std::vector<std::string> patterns;
  patterns.reserve(rates.size());
  for (const auto& [pattern, lr] : rates) patterns.push_back(pattern);
  return patterns;
}

}  // namespace fit

namespace fit::optim {
namespace {

void find_embeddings(const nn::Layer& layer, std::unordered_set<const void*>& found) {
  if (dynamic_cast<const nn::Embedding*>(&layer))
    for (const Tensor& p : layer.parameters()) found.insert(p.impl());
  for (const auto& [name, child] : layer.children()) find_embeddings(*child, found);
}

}  // namespace

std::pair<Parameters, Parameters> split_by_decay(const nn::Layer& net, DecayEmbeddings embeddings) {
  std::unordered_set<const void*> left_out;
  if (embeddings == DecayEmbeddings::no) find_embeddings(net, left_out);
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
