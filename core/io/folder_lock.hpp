#pragma once
#include <string>

namespace fit::io {

/// Holds a folder: a second lock on it, in this process or another one, is refused. The lock is on the file .lock in
/// the folder. It ends with this object, and with the process, however that ends. On a file system without locks, and
/// in a folder that can't be written, every lock is granted.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// The process that holds the folder, "process 4711 on the host name"; empty if this object does.
  const std::string& holder() const { return holder_; }

 private:
  std::string path_, holder_;
  int file_ = -1;
};

/// Whether the name still means the open file: no other program has renamed or removed it.
bool still_named(int file, const char* name);

}  // namespace fit::io
