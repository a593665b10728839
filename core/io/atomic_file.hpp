#pragma once
#include <cstddef>
#include <functional>
#include <string>

namespace fit::io {

/// Writes a file completely or not at all. The bytes go to a temporary file in the same directory; commit() flushes it
/// to the disk and renames it over the target. Without commit() (an exception) the temporary is removed and the old
/// file is unchanged. A temporary of a killed program is reused by the next writer. Throws FileError with `op`, the
/// path and the reason.
class AtomicFile {
 public:
  AtomicFile(const char* op, const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  /// `check` is given the path of the temporary file, which is complete. If it throws, the old file stays.
  void commit(const std::function<void(const std::string& temporary)>& check = {});

 private:
  void discard();
  [[noreturn]] void fail(const char* what);

  const char* op_;
  std::string path_, temporary_;
  int file_ = -1;
};

}  // namespace fit::io
