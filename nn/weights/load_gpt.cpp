#include "fit/io/safetensors.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/tensor/lookup.hpp"
#include "models/saved_options.hpp"

namespace fit::nn {

GPT GPT::load(const std::string& path) {
  constexpr const char* op = "GPT::load";
  const SafeTensors file = load_safetensors(path, keep_bfloat16);
  // A checkpoint has the model as a part; its first GPT counts if the model contains it.
  const std::string part = file.metadata.count("options.model.vocab_size") > 0 ? "model" : "";
  GPT gpt = [&] {
    const init::Skip undrawn;
    return GPT(gpt_options(op, path, file.metadata, part));
  }();
  load_weights(gpt, part.empty() ? file.tensors : under(file.tensors, part + '.'));
  return gpt;
}

}  // namespace fit::nn
