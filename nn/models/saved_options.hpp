#pragma once
#include <map>
#include <string>

#include "fit/nn/layer/layer.hpp"
#include "fit/nn/models/gpt.hpp"

// The options of models as strings of a file: what weights alone do not tell, such as heads, the rotary base, windows
// and eps.
namespace fit::nn {

using Strings = std::map<std::string, std::string>;

/// The options of each GPT and BERT in this layer, as "options.PATH.NAME" ("options.NAME" for the layer itself).
/// `part` is a path before all of them, such as "model".
Strings saved_options(const Layer& layer, const std::string& part = {});

/// What differs between the options of a file and those of the layer, one line each: "\n  num_heads is 4 in the file, 8
/// here". Empty if nothing does, and for a file without options. Dropout may differ.
std::string differing_options(const Layer& layer, const Strings& metadata, const std::string& part = {});

/// The options of the GPT at this path. Throws Error in the name of `op` and `file` if they are not there or are no
/// options.
GPTOptions gpt_options(const char* op, const std::string& file, const Strings& metadata, const std::string& part);

}  // namespace fit::nn
