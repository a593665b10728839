#include "fit/tensor/lookup.hpp"

#include <algorithm>
#include <numeric>

#include "base/affixes.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

// Insertions, deletions and substitutions that turn `a` into `b` (Levenshtein 1966).
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min(changed, std::min(row[j], row[j + 1]) + 1);
    }
  }
  return row.back();
}

}  // namespace

const std::string* most_similar(const std::string& name, const std::vector<std::string>& names) {
  const std::string* best = nullptr;
  std::size_t least = name.size() / 2 + 1;
  for (const std::string& other : names) {
    const std::size_t more = std::max(name.size(), other.size()) - std::min(name.size(), other.size());
    if (more >= least) continue;  // the length difference is a lower bound of the distance
    const std::size_t d = edit_distance(name, other);
    if (d < least) best = &other, least = d;
  }
  return best;
}

namespace {

const Tensor* find(const StateDict& state, const std::string& name) {
  for (const auto& [own, tensor] : state)
    if (own == name) return &tensor;
  return nullptr;
}

}  // namespace

bool contains(const StateDict& state, const std::string& name) { return find(state, name) != nullptr; }

Tensor at(const StateDict& state, const std::string& name) {
  if (const Tensor* const found = find(state, name)) return *found;
  std::vector<std::string> names;
  for (const auto& [own, tensor] : state) names.push_back(own);
  const std::string* const near = most_similar(name, names);
  check::fail("at", "there is no '", name, "' among the ", names.size(), " tensors",
              near ? ": the most similar name is '" + *near + "'" : std::string());
}

StateDict under(const StateDict& state, const std::string& prefix) {
  StateDict below;
  for (const auto& [name, tensor] : state)
    if (starts_with(name, prefix)) below.emplace_back(name.substr(prefix.size()), tensor);
  return below;
}

}  // namespace fit
