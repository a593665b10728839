#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/layer/layer.hpp"

/// Weights in 8 bits, for inference. They need a quarter of the memory of float32, and generation is faster.
///
///     nn::load_weights(gpt, "gpt.safetensors");
///     nn::quantize_(gpt);
///     nn::save_weights("gpt_int8.safetensors", gpt);
///
/// and to use the file:
///
///     nn::GPT gpt(options);
///     nn::quantize_(gpt);  // with the same options; the initial weights don't matter
///     nn::load_weights(gpt, "gpt_int8.safetensors");
namespace fit::nn {

/// The options of quantize_().
struct Int8WeightOnlyOptions {
  /// The number of neighbours in a row that share a scale: 32, 64, 128, or 0 for the full row.
  FIT_OPTION(std::int64_t, group_size) = 0;
  /// Patterns for the names of the Linear and Embedding layers to quantise.
  FIT_OPTION(std::vector<std::string>, layers) = {"*"};
};

/// Converts the weights of Linear and Embedding layers to int8 with scales (see quantize() in fit/ops/int8.hpp), like
/// torchao's quantize_() with Int8WeightOnlyConfig. Freezes the model. Biases and other parameters keep their values.
/// In a pattern `*` matches one or more characters, also dots: {"h.*", "head"}. Layers that share a weight, such as a
/// tied head and its embedding, share one int8 table if any of them matches.
///
/// The parameter `weight` becomes two buffers: `weight.int8` [out, in] and `weight.scale` [out, groups]. state_dict()
/// lists them. .safetensors files store them as I8 and in the type of the scale. A quantised weight is not a parameter
/// and cannot be trained: unfreeze() throws, and so does an optimiser that has nothing to train. Gradients flow through
/// it to earlier layers. add_lora() adapts it: it trains float32 matrices beside the int8 weight.
/// remove_parametrization() converts a weight back; the rounding stays.
///
/// Returns the names of the layers. Throws Error, and changes nothing, if
/// - the group size is another, a pattern matches no Linear or Embedding, or there is nothing to quantise;
/// - a weight is parametrised or quantised already, holds NaN or infinity, or is shared with another kind of layer.
std::vector<std::string> quantize_(Layer& model, const Int8WeightOnlyOptions& options = {});

}  // namespace fit::nn
