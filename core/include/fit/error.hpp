#pragma once
#include <stdexcept>
#include <string>

namespace fit {

/// A bad argument: the message names the op, the argument, the shapes or values, and the rule that they break.
/// Nothing has been changed when it is thrown.
class Error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// A file that is missing, damaged, truncated or hostile. Nothing in memory has been changed when it is thrown.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace fit
