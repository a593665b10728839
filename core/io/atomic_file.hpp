#pragma once
#include <cstddef>
#include <string>

namespace fit::io {

/// Writes a file whole or not at all: into a temporary file of the same directory, which commit() flushes to the disk
/// and puts in the file's place. Without commit() (an exception on the way) the temporary goes and the old file stays
/// as it was. The temporary of a program that was killed is used by the next one that writes the file. Throws
/// FileError, in the name of `op`, that says which file and why.
class AtomicFile {
 public:
  AtomicFile(const char* op, const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void commit();

 private:
  void discard();
  [[noreturn]] void fail(const char* what);

  const char* op_;
  std::string path_, temporary_;
  int file_ = -1;
};

}  // namespace fit::io
