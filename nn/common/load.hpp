#pragma once
#include <string>
#include <utility>
#include <vector>

#include "fit/state_dict.hpp"
#include "fit/tensor.hpp"
#include "io/stored.hpp"

namespace fit::nn {

/// Copies the tensors of `given` into those of `mine` that have the same names, converting among floating types. If a
/// name is missing, is not one of mine, is there twice, or has another shape, throws one Error that lists all of them,
/// and changes nothing. `owner` stands for what is loaded in the message. Of mine that share a buffer, one is enough;
/// if several are given, they must be equal.
void load_values(const char* op, const std::string& owner, const StateDict& mine, const StateDict& given);
void load_values(const char* op, const std::string& owner, const StateDict& mine, const std::vector<io::Stored>& given);

/// Names that do not fit.
struct Misfits {
  std::vector<std::string> missing, unexpected, misfitting;
};
/// The same for those that fit. Returns the others.
Misfits load_fitting(const StateDict& mine, const std::vector<io::Stored>& given);

}  // namespace fit::nn
