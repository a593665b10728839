#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/joined.hpp"
#include "fit/base/error.hpp"

namespace fit::io {

/// Reads a regular file of known length, sequentially or after seek(). Throws FileError with `op`.
class InputFile {
 public:
  InputFile(const char* op, const std::string& path);
  /// Reads bytes that were extracted from another file. Messages use the given name.
  InputFile(const char* op, const std::string& name, std::string bytes);

  std::int64_t size() const { return size_; }
  std::int64_t position() const { return at_; }
  std::int64_t left() const { return size_ - at_; }
  void read(void* to, std::int64_t bytes);
  /// Continues reading at this position, which must be inside the file.
  void seek(std::int64_t position);
  /// All bytes that are left.
  std::string rest();
  /// The file descriptor; -1 for extracted bytes.
  int descriptor() const { return file_ ? fileno(file_.get()) : -1; }

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw FileError(joined('[', op_, "] ", path_, ": ", parts...));
  }

 private:
  const char* op_;
  std::string path_;
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::unique_ptr<std::FILE, Close> file_;  // null: the bytes are at hand
  std::string bytes_;
  std::int64_t size_ = 0, at_ = 0;
};

/// Bytes of a file for a message: shortened, printable characters only.
std::string shown(std::string bytes);

}  // namespace fit::io
