#include "io/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace fit::io {

namespace {

std::string this_process() {
  char host[HOST_NAME_MAX + 1] = "";
  ::gethostname(host, HOST_NAME_MAX);
  return "process " + std::to_string(::getpid()) + " on the host " + host;
}

// What the holder has written; it may be about to.
std::string holder_of(int file) {
  char text[64 + HOST_NAME_MAX];
  const ssize_t n = ::pread(file, text, sizeof text, 0);
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : "another process";
}

}  // namespace

bool still_named(int file, const char* name) {
  struct stat opened, named;
  return ::fstat(file, &opened) == 0 && ::lstat(name, &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

FolderLock::FolderLock(const std::string& folder) : path_(folder + "/.lock") {
  while (file_ < 0) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) return;
    const bool locked = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) holder_ = holder_of(file_);
    if (locked && still_named(file_, path_.c_str())) break;
    ::close(file_);  // without a lock; or the holder before has removed the file between open() and flock()
    file_ = -1;
    if (!locked) return;
  }
  const std::string text = this_process();
  if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, text.data(), text.size(), 0) < 0) errno = 0;  // a full disk
}

FolderLock::~FolderLock() {
  if (file_ < 0) return;
  ::unlink(path_.c_str());
  ::flock(file_, LOCK_UN);  // also for a child process, which has a copy of the descriptor
  ::close(file_);
}

}  // namespace fit::io
