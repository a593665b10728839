#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>

#include "fit/error.hpp"

namespace fit::io {

/// A regular file of known length that is read from front to back, or from a place that is sought. Throws FileError in
/// the name of `op`.
class InputFile {
 public:
  InputFile(const char* op, const std::string& path);
  /// What is within a file: the bytes that were taken out of it, and the name that messages have for them.
  InputFile(const char* op, const std::string& name, std::string bytes);

  std::int64_t size() const { return size_; }
  std::int64_t position() const { return at_; }
  std::int64_t left() const { return size_ - at_; }
  void read(void* to, std::int64_t bytes);
  /// Goes on from there, which must be in the file.
  void seek(std::int64_t position);
  /// All bytes that are left.
  std::string rest();
  /// Its number for the system; -1 of what is within a file.
  int descriptor() const { return file_ ? fileno(file_.get()) : -1; }

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    std::ostringstream s;
    s << '[' << op_ << "] " << path_ << ": ";
    (s << ... << parts);
    throw FileError(s.str());
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

/// Bytes of a file as they may stand in a message: short, and without what is not printable.
std::string shown(std::string bytes);

}  // namespace fit::io
