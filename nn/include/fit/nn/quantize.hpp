#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/nn/layer.hpp"
#include "fit/option.hpp"

/// Weights in 8 bits, for inference: a quarter of the memory, and generation as fast as it can be read.
///
///     nn::load_weights(gpt, "gpt.safetensors");
///     nn::quantize_(gpt);
///     nn::save_weights("gpt_int8.safetensors", gpt);
///
/// and where it is used:
///
///     nn::GPT gpt(options);
///     nn::quantize_(gpt);  // the same options: the weights that it has don't matter
///     nn::load_weights(gpt, "gpt_int8.safetensors");
namespace fit::nn {

/// The options of quantize_().
struct Int8WeightOnlyOptions {
  /// The neighbours in a row that share a scale: 32, 64, 128, or 0 for a row.
  FIT_OPTION(std::int64_t, group_size) = 0;
  /// The patterns of the Linear and Embedding layers that are quantized.
  FIT_OPTION(std::vector<std::string>, layers) = {"*"};
};

/// Turns the weights of Linear and Embedding layers into int8 with scales (quantize() in fit/int8.hpp says how), as
/// torchao's quantize_() with Int8WeightOnlyConfig, and freezes the model. Biases and all other parameters stay as they
/// are. In a pattern `*` stands for one or more letters, dots too: {"h.*", "head"}. A weight that several layers share,
/// as a tied head and its embedding, is one int8 table for all of them, if one is asked for.
///
/// What was `weight` is then the buffers `weight.int8` [out, in] and `weight.scale` [out, groups], which state_dict()
/// lists and .safetensors files hold as I8 and as the scale's type. A quantised weight is no parameter and can't be
/// trained: unfreeze() of it throws, and so does an optimiser that is left with nothing to train. Gradients go through
/// it to what comes before, and add_lora() adapts it: matrices in float32 are trained beside the int8 weights.
/// remove_parametrization() turns a weight back, but for what was rounded off.
///
/// Returns the layers' names. Throws Error, and has changed nothing, for another group size, a pattern that no Linear
/// or Embedding matches, a weight that is parametrised or quantised already, shared with another kind of layer, or has
/// a NaN or an infinity, and if there is nothing to quantise.
std::vector<std::string> quantize_(Layer& model, const Int8WeightOnlyOptions& options = {});

}  // namespace fit::nn
