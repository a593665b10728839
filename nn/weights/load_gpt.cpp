#include <map>

#include "base/affixes.hpp"
#include "base/joined.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/nn/layers/quantize.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/tensor/lookup.hpp"
#include "models/oversized.hpp"
#include "models/saved_options.hpp"

namespace fit::nn {
namespace {

constexpr const char* load_gpt_op = "GPT::load";

// The layers of a quantised model whose names in a file end with `suffix`, by the number of weights that share a scale:
// 0 for the full row, as in the options.
std::map<std::int64_t, std::vector<std::string>> quantized_layers(const StateDict& state, const std::string& suffix,
                                                                  std::int64_t weights_of_a_byte) {
  std::map<std::int64_t, std::vector<std::string>> by_group;
  for (const auto& [name, bytes] : state) {
    if (!ends_with(name, suffix)) continue;
    const std::string layer = name.substr(0, name.size() - suffix.size());
    const Tensor scale = at(state, layer + ".weight.scale");
    if (bytes.rank() != 2 || scale.rank() != 2 || scale.numel() == 0) continue;  // load_weights() says what is wrong
    const std::int64_t groups = scale.size(1);
    by_group[groups == 1 ? 0 : bytes.size(1) * weights_of_a_byte / groups].push_back(layer);
  }
  return by_group;
}

// Quantises what is quantised in the file.
void quantize_as(GPT& gpt, const StateDict& state) {
  const auto bytes = quantized_layers(state, ".weight.int8", 1), halves = quantized_layers(state, ".weight.int4", 2);
  if (bytes.empty() && halves.empty()) return;
  const NoGrad no_grad;
  for (const Tensor& p : gpt.parameters()) init::constant_(p, 0);  // they were not drawn, and may be NaN
  for (const auto& [group, layers] : bytes) quantize_(gpt, Int8WeightOnlyOptions().group_size(group).layers(layers));
  for (const auto& [group, layers] : halves) quantize_(gpt, Int4WeightOnlyOptions().layers(layers));
}

// A model with the options of a file, whose weights are not drawn.
GPT undrawn_gpt(const std::string& path, const GPTOptions& o, const StateDict& state) {
  double elements = 0;
  for (const auto& [name, x] : state) elements += static_cast<double>(x.numel());
  const std::string file = joined("[", load_gpt_op, "] ", path, ": ");
  if (const std::string why = oversized(o, state.size(), elements); !why.empty())
    throw FileError(file + "a GPT " + why);
  if (oversized_positions(o))
    throw FileError(joined(file, "context_length is ", o.context_length(), ": too large for a table of positions"));
  try {
    const init::Skip undrawn;
    return GPT(o);
  } catch (const Error& e) {
    throw FileError(file + e.what());
  }
}

}  // namespace

GPT GPT::load(const std::string& path) {
  const SafeTensors file = load_safetensors(path, keep_bfloat16);
  // A checkpoint has the model as a part; its first GPT counts if the model contains it.
  const std::string part = file.metadata.count("options.model.vocab_size") > 0 ? "model" : "";
  const StateDict state = part.empty() ? file.tensors : under(file.tensors, part + '.');
  GPT gpt = undrawn_gpt(path, gpt_options(load_gpt_op, path, file.metadata, part), state);
  quantize_as(gpt, state);
  load_weights(gpt, state);
  return gpt;
}

}  // namespace fit::nn
