#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/tensor/state_dict.hpp"

/// Fine-tuning of pretrained weights: LoRA trains small matrices beside frozen weights, and freeze() selects parameters
/// by name. optim::with_rates() sets learning rates by name.
///
///     nn::load_weights(gpt, "gpt.safetensors");
///     nn::add_lora(gpt, nn::LoraOptions().rank(8).alpha(16).layers({"h.*.attn.qkv"}));
///     optim::AdamW optimizer(gpt.named_parameters(), 1e-3);  // changes parameters that are not frozen
///     …
///     save_safetensors("adapter.safetensors", nn::lora_state_dict(gpt));  // for example 1/1000 of the model's size
///
/// and to use the adapters:
///
///     nn::load_weights(gpt, "gpt.safetensors");
///     nn::load_lora_state_dict(gpt, load_safetensors("adapter.safetensors").tensors);
///     nn::merge_lora(gpt);  // as fast as without adapters
namespace fit::nn {

// ---- parameters by name -------------------------------------------------------------------------------------------

/// Freezes, or unfreezes, the parameters that match one of the patterns. `*` matches one or more characters, also dots:
/// {"wte.*", "h.0.*"}. Other parameters do not change. If a pattern matches no parameter, throws Error with the most
/// similar name, and changes nothing.
void freeze(Layer& layer, const std::vector<std::string>& patterns);
void unfreeze(Layer& layer, const std::vector<std::string>& patterns);

// ---- LoRA ---------------------------------------------------------------------------------------------------------

/// The options of add_lora().
struct LoraOptions {
  FIT_OPTION(std::int64_t, rank) = 8;  ///< The rank of B A.
  FIT_OPTION(double, alpha) = 16;      ///< B A is multiplied by alpha / rank.
  /// Patterns for the names of the Linear layers to adapt, as in freeze().
  FIT_OPTION(std::vector<std::string>, layers) = {"*"};
};

/// LoRA (Hu et al. 2021): freezes the model, and adds two trainable matrices to the weight W [out, in] of each matching
/// Linear. The layer computes with W + alpha / rank B A. A [rank, in] starts normal with standard deviation
/// 1 / sqrt(in). B [out, rank] starts at 0, so the model's outputs do not change at first. To train other parameters,
/// too, unfreeze them afterwards. Weights that several layers share, such as a tied head, are skipped.
///
/// A model that has adapters already is not frozen again, so that these train on: call add_lora() once for each rank.
///
/// A and B are float64 for a float64 W, else float32: so an optimiser can train them beside a bfloat16 or int8 W. The
/// sum has the type of W. Convert the model (to()) before add_lora(), not after.
///
/// If the model is a Linear itself, every pattern matches it, and its name is empty.
///
/// Returns the names of the layers. Throws Error, and changes nothing, for a rank below 1, an alpha that is 0 or not
/// finite, a pattern that matches no Linear, a weight that is parametrised already, or if no weight remains.
std::vector<std::string> add_lora(Layer& model, const LoraOptions& options = {});

/// Only the adapters, as live handles. For the layer "h.0.attn.qkv": "h.0.attn.qkv.lora_A.weight", "….lora_B.weight"
/// (PEFT's names) and the number "….lora_alpha". Throws Error if there are none.
StateDict lora_state_dict(const Layer& model);
/// Copies adapters into those of the model. A layer without an adapter gets one, as from add_lora(). Throws one Error
/// that lists everything that does not fit, and then changes nothing.
void load_lora_state_dict(Layer& model, const StateDict& state);
/// Replaces each weight by W + alpha / rank B A and removes the adapters. (To merge the averages of
/// ExponentialMovingAverage::apply(), merge a clone().) Names and speed are again those of the model
/// without adapters. Frozen parameters stay frozen. Throws Error if there are no adapters.
///
/// In a quantised model, the merged weights become parameters `weight` of the type of the scales. To quantise them
/// again, pass the names that add_lora() returned: quantize_(model, Int8WeightOnlyOptions().layers(adapted)).
void merge_lora(Layer& model);

}  // namespace fit::nn
