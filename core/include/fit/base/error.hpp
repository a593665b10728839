#pragma once
#include <memory>
#include <stdexcept>
#include <string>

namespace fit {

/// The error for a bad argument. The message names the op, the argument, the shapes or values, and the violated rule.
/// Nothing has changed when it is thrown.
class Error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
  /// The message. If the error comes from a nested layer, the message ends with its path: "[matmul] …, in
  /// encoder.layers.2.mlp.fc".
  const char* what() const noexcept override;

  /// The path of the layer that threw, such as "encoder.layers.2.mlp.fc"; empty if no layer has set it.
  std::string where() const;
  /// The layer where the path begins. Use it for comparison only: the layer may not exist any more.
  const void* seen_from() const noexcept;
  /// Sets the path, which begins at `from`; it replaces an earlier path.
  void set_where(const std::string& path, const void* from);

 private:
  struct Place;
  std::shared_ptr<const Place> place_;  // shared: an exception is copied without throwing
};

/// The error for a missing, damaged, truncated or malicious file. Nothing in memory has changed when it is thrown.
class FileError : public Error {
 public:
  using Error::Error;
};

}  // namespace fit
