#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/layer/layer.hpp"

/// Weights in 8 or 4 bits, for inference. They need a quarter or a sixth of the memory of float32, and generation is
/// faster.
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

/// The options of quantize_() for int8 weights and activations.
struct Int8DynamicActivationInt8WeightOptions {
  /// The number of neighbours that share a scale, in a row of the weights and in a row of the activations: 32, 64, 128,
  /// or 0 for the full row.
  FIT_OPTION(std::int64_t, group_size) = 0;
  /// Patterns for the names of the Linear and Embedding layers to quantise.
  FIT_OPTION(std::vector<std::string>, layers) = {"*"};
};

/// The options of quantize_() for weights of 4 bits, with a scale for 32 neighbours in a row.
struct Int4WeightOnlyOptions {
  /// Patterns for the names of the Linear and Embedding layers to quantise.
  FIT_OPTION(std::vector<std::string>, layers) = {"*"};
};

/// The options of quantize_() for weights of 4 bits and int8 activations, with a scale for 32 neighbours of each.
struct Int8DynamicActivationInt4WeightOptions {
  /// Patterns for the names of the Linear and Embedding layers to quantise.
  FIT_OPTION(std::vector<std::string>, layers) = {"*"};
};

/// Converts the weights of Linear and Embedding layers to int8 with scales (see quantize() in fit/int8/int8.hpp), like
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

/// The same, and the quantised layers round their input to int8, each row when they read it, like torchao's
/// Int8DynamicActivationInt8WeightConfig: whole numbers are multiplied, which is faster but less exact (formula:
/// linear() in fit/int8/int8.hpp). State and files are the same: weights of a model quantised either way can be loaded
/// into one quantised the other way. Where add_lora() adapts a layer, its input is not rounded.
std::vector<std::string> quantize_(Layer& model, const Int8DynamicActivationInt8WeightOptions& options);

/// Converts to weights of 4 bits (see quantize_int4() in fit/int8/int8.hpp), which are those of Q4_0 in GGUF files. All
/// else is as for int8, but the buffers are `weight.int4` [out, in / 2] and `weight.scale` [out, in / 32]. Throws
/// Error, too, if a row of a weight is no multiple of 32.
std::vector<std::string> quantize_(Layer& model, const Int4WeightOnlyOptions& options);

/// The same, and the quantised layers round their input to int8, each 32 neighbours when they read it, like torchao's
/// Int8DynamicActivationInt4WeightConfig and llama.cpp. So products of few rows, as in generation, take least time.
std::vector<std::string> quantize_(Layer& model, const Int8DynamicActivationInt4WeightOptions& options);

}  // namespace fit::nn
