#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace fit::io {

/// Writes a file completely or not at all. Every file that fit writes passes here; a log alone is appended to. The
/// bytes go to a temporary file in the same directory; commit() flushes it to the disk and renames it over the old
/// file. Without commit() (an exception) the temporary is removed and the old file is unchanged. A temporary of a
/// killed program is reused by the next writer.
///
/// The new file has the permissions of the old one, and its owner if the process may give the file away. A symbolic
/// link stays: the file that it leads to is replaced. What is not a regular file (a device, a pipe) is written
/// directly. Throws FileError with `op`, the path and the reason, also for a file without permission to write.
class AtomicFile {
 public:
  AtomicFile(const char* op, const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  /// `check` is given the path of the temporary file, which is complete. If it throws, the old file stays. It is not
  /// called for a device or a pipe.
  void commit(const std::function<void(const std::string& temporary)>& check = {});

 private:
  void discard();
  [[noreturn]] void fail(const char* what);

  const char* op_;
  std::string path_, target_, temporary_;  // target_: the file that path_ leads to; temporary_: empty for a device
  int file_ = -1;
};

/// Makes the folder and those above it, if there are none.
void make_folder(const char* op, const std::string& folder);
/// Writes `bytes` as the file.
void write_file(const char* op, const std::string& path, std::string_view bytes);
/// Writes the bytes of the file `from` as the file `to`.
void copy_file(const char* op, const std::string& from, const std::string& to);

}  // namespace fit::io
