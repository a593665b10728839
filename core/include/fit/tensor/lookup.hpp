#pragma once
#include <string>
#include <vector>

#include "fit/tensor/state_dict.hpp"

/// Access by name to the results of load_safetensors(), load_npz() and state_dict().
///
///     const StateDict all = load_safetensors("model.safetensors").tensors;
///     const Tensor table = at(all, "embeddings.weight");
///     encoder.load_state_dict(under(all, "encoder."));
namespace fit {

/// The tensor with this name. If there is none, throws Error with the most similar name.
Tensor at(const StateDict& state, const std::string& name);
/// Whether a tensor has this name.
bool contains(const StateDict& state, const std::string& name);
/// The tensors with this prefix in their names, in the same order; the prefix is removed.
StateDict under(const StateDict& state, const std::string& prefix);
/// The name with the smallest edit distance; null if no name matches in at least half of its letters.
const std::string* most_similar(const std::string& name, const std::vector<std::string>& names);

}  // namespace fit
