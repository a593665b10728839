#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/nn/layer.hpp"
#include "fit/option.hpp"
#include "fit/state_dict.hpp"

/// Training that goes on from weights that are there: a few small matrices beside the frozen ones (LoRA), or some of
/// the parameters, by their names. Rates of their own by name: optim::with_rates().
///
///     nn::load_weights(gpt, "gpt.safetensors");
///     nn::add_lora(gpt, nn::LoraOptions().rank(8).alpha(16).layers({"h.*.attn.qkv"}));
///     optim::AdamW optimizer(gpt.named_parameters(), 1e-3);  // changes what is not frozen
///     …
///     save_safetensors("adapter.safetensors", nn::lora_state_dict(gpt));  // a thousandth of the model, say
///
/// and where it is used:
///
///     nn::load_weights(gpt, "gpt.safetensors");
///     nn::load_lora_state_dict(gpt, load_safetensors("adapter.safetensors").tensors);
///     nn::merge_lora(gpt);  // as fast as without
namespace fit::nn {

// ---- parameters by name -------------------------------------------------------------------------------------------

/// Freeze, or unfreeze, the parameters that match one of the patterns, in which `*` stands for one or more letters,
/// dots too: {"wte.*", "h.0.*"}. The others stay as they are. Throw Error, with the most similar name, and have changed
/// nothing, for a pattern that no parameter matches.
void freeze(Layer& layer, const std::vector<std::string>& patterns);
void unfreeze(Layer& layer, const std::vector<std::string>& patterns);

// ---- LoRA ---------------------------------------------------------------------------------------------------------

/// The options of add_lora().
struct LoraOptions {
  FIT_OPTION(std::int64_t, rank) = 8;  ///< The rank of B A.
  FIT_OPTION(double, alpha) = 16;      ///< B A is multiplied by alpha / rank.
  /// The patterns of the Linear layers that are changed, as those of freeze().
  FIT_OPTION(std::vector<std::string>, layers) = {"*"};
};

/// LoRA (Hu et al. 2021): freezes the model and gives the weight W [out, in] of each Linear that is asked for two
/// matrices that are trained, so that it computes with W + alpha / rank B A: A [rank, in] starts normal with standard
/// deviation 1 / sqrt(in), B [out, rank] with zeros, and so the model starts as it was. What else should be trained is
/// unfrozen afterwards. A weight that layers share, as a tied head does, is passed over.
///
/// A and B are float32, or float64 beside a float64 W. Beside a bfloat16 or int8 W they stay float32, so that an
/// optimiser can train them; the sum has W's type. Convert the model (to()) before, not after.
///
/// Returns the layers' names. Throws Error, and has changed nothing, for a rank below 1, an alpha that isn't finite, a
/// pattern that no Linear matches, a weight that is parametrised already, or if nothing is left to adapt.
std::vector<std::string> add_lora(Layer& model, const LoraOptions& options = {});

/// The adapters alone, live: for the layer "h.0.attn.qkv", "h.0.attn.qkv.lora_A.weight", "….lora_B.weight" (PEFT's
/// names) and "….lora_alpha", a number. Throws Error if there are none.
StateDict lora_state_dict(const Layer& model);
/// Puts such adapters in: copied into those that the model has, and added as add_lora() does where it has none. Throws
/// one Error for all that doesn't fit, and then has changed nothing.
void load_lora_state_dict(Layer& model, const StateDict& state);
/// Each weight becomes W + alpha / rank B A, and the adapters are gone: the model has the names that it had before, and
/// computes as fast. All stays frozen that was. Throws Error if there are none.
void merge_lora(Layer& model);

}  // namespace fit::nn
