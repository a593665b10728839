#pragma once
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace fit {

/// What fit throws. A bad argument: the message names the op, the argument, the shapes or values, and the rule that
/// they break. Nothing has been changed when it is thrown.
class Error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
  /// The message. Out of a layer within others, it ends with the place: "[matmul] …, in encoder.layers.2.mlp.fc".
  const char* what() const noexcept override {
    return place_ && !place_->path.empty() ? place_->message.c_str() : std::invalid_argument::what();
  }

  /// The way to where it was thrown, as names with dots between them; empty if nothing has told it.
  std::string where() const { return place_ ? place_->path : std::string(); }
  /// Whoever told the way last: where it begins. To be compared only: it may be gone by now.
  const void* seen_from() const noexcept { return place_ ? place_->from : nullptr; }
  /// Tells the way from `from` on, in place of what was told before.
  void set_where(const std::string& path, const void* from) {
    place_ = std::make_shared<const Place>(Place{path, std::invalid_argument::what() + (", in " + path), from});
  }

 private:
  struct Place {
    std::string path, message;
    const void* from;
  };
  std::shared_ptr<const Place> place_;  // shared: an exception is copied without throwing
};

/// A file that is missing, damaged, truncated or hostile. Nothing in memory has been changed when it is thrown.
class FileError : public Error {
 public:
  using Error::Error;
};

}  // namespace fit
