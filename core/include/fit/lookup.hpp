#pragma once
#include <string>

#include "fit/state_dict.hpp"

/// Looking into what load_safetensors(), load_npz() and state_dict() give.
///
///     const StateDict all = load_safetensors("model.safetensors").tensors;
///     const Tensor table = at(all, "embeddings.weight");
///     encoder.load_state_dict(under(all, "encoder."));
namespace fit {

/// The tensor of this name. Throws Error, which names the most similar, if there is none.
Tensor at(const StateDict& state, const std::string& name);
/// Whether there is one of this name.
bool contains(const StateDict& state, const std::string& name);
/// Those whose names begin with the prefix, without it, in their order.
StateDict under(const StateDict& state, const std::string& prefix);

}  // namespace fit
