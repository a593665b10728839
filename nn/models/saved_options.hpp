#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fit/nn/layer/layer.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/gpt.hpp"

// The options of models as text: in a file, what weights alone do not tell, such as heads, the rotary base, windows and
// eps; and to compare models.
namespace fit::nn {

using Strings = std::map<std::string, std::string>;

using OptionList = std::vector<std::pair<std::string, std::string>>;
/// The name and the value of each option that changes a result: "norm_eps", "1e-05".
OptionList option_list(const GPTOptions& o);
OptionList option_list(const BERTOptions& o);

/// Layer::saved_options() of this layer and those in it, as "options.PATH.NAME" ("options.NAME" for the layer itself).
/// An option that a layer above has, too, is left out: a GPT says it for its layers. `part` is a path before all of
/// them, such as "model".
Strings saved_options(const Layer& layer, const std::string& part = {});

/// What differs between the options of a file and those of the layer, one line each: "\n  num_heads is 4 in the file, 8
/// here". Empty if nothing does, and for a file without options. Dropout may differ.
std::string differing_options(const Layer& layer, const Strings& metadata, const std::string& part = {});

/// The options of the GPT at this path. Throws Error in the name of `op` and `file` if they are not there or are no
/// options.
GPTOptions gpt_options(const char* op, const std::string& file, const Strings& metadata, const std::string& part);

}  // namespace fit::nn
