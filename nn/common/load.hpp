#pragma once
#include <string>
#include <vector>

#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"
#include "io/stored.hpp"

namespace fit::nn {

/// Copies the tensors of `given` into those of `mine` with the same names, and converts between floating types. Throws
/// one Error that lists all missing, unexpected, duplicate and misshapen names, and then changes nothing. `owner` is
/// the name of the loaded object in the message. Among tensors of mine that share a buffer, one suffices. If several
/// are given, they must be equal.
void load_values(const char* op, const std::string& owner, const StateDict& mine, const StateDict& given);
void load_values(const char* op, const std::string& owner, const StateDict& mine, const std::vector<io::Stored>& given);

/// The same, but `mine` are the tensors themselves, not others with their buffers, and nothing else has their buffers.
/// A large one whose elements are in a file as they are here becomes a mapping of the file.
void map_values(const char* op, const std::string& owner, const StateDict& mine, const std::vector<io::Stored>& given);

/// Whether shape, type and all bits are the same.
bool same_values(const io::Stored& a, const io::Stored& b);

/// Names that do not fit.
struct Misfits {
  std::vector<std::string> missing, unexpected, misfitting;
};
/// Loads the tensors that fit. Returns the names of the others. Throws Error if none fits.
Misfits load_fitting(const std::string& owner, const StateDict& mine, const std::vector<io::Stored>& given);

}  // namespace fit::nn
