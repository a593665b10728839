#pragma once
#include <string>
#include <vector>

#include "models/saved_options.hpp"

// Models that are compared by their options: with a family of others' models, or with what others can compute.
namespace fit::nn {

/// The name and the value of each option, in one form: sizes and windows of each layer as numbers, no option that
/// equals its default, nothing that is not read.
OptionList listed(const GPTOptions& o);
OptionList listed(const BERTOptions& o);

/// Whether two tables of rotary positions have the same angles.
bool same_angles(const RotaryTableOptions& a, const RotaryTableOptions& b);

/// An option with two values.
struct Difference {
  std::string name, value, other;
};
/// The options of `o` that are not those of `other`.
template <class Options>
std::vector<Difference> differences(const Options& o, const Options& other);

/// The sizes, dropout, eps and tied head of `o`, which all maps of names and pages take, and defaults for the rest.
GPTOptions with_sizes_of(const GPTOptions& o);

/// Throws Error in the name of `op` for the first option of `o` that `like` has not. Weights have the same names and
/// shapes with many options, and mean something else. So `like` is made of with_sizes_of(o), and takes over each
/// further option that `models` ("Llama's weights") may have: a new option is refused until it is taken over, too.
template <class Options>
void expect_options(const char* op, const char* models, const Options& o, const Options& like);

}  // namespace fit::nn
