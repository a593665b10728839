#pragma once
#include <string>

namespace fit::nn {

/// Our name of a value that TransformerLens calls `theirs`; empty if it has none there. A * in theirs stays.
std::string our_value_name(const std::string& theirs);

}  // namespace fit::nn
