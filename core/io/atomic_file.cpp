#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "fit/error.hpp"
#include "io/size_signal.hpp"

namespace fit::io {

namespace {

// Opens a temporary file that is new, or that a killed program left behind. Returns -1 if a running program writes it:
// a writer holds the file's lock. On a file system without locks, every existing temporary counts as in use.
int claim(const char* name) {
  constexpr int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW;
  int file = ::open(name, flags | O_CREAT | O_EXCL, 0666);
  const bool fresh = file >= 0;
  if (!fresh) {
    if (errno != EEXIST) return -1;
    file = ::open(name, flags);
  }
  const bool locked = file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) == 0;
  const bool ours = locked || (fresh && errno != EWOULDBLOCK);
  // Between open and lock, the writer may have renamed or removed the file.
  struct stat opened, named;
  // LCOV_EXCL_START: it does so within microseconds.
  if (ours && ::fstat(file, &opened) == 0 && ::lstat(name, &named) == 0 && opened.st_ino == named.st_ino &&
      opened.st_dev == named.st_dev && ::ftruncate(file, 0) == 0)
    return file;
  // LCOV_EXCL_STOP
  if (file >= 0) ::close(file);
  errno = EEXIST;
  return -1;
}

}  // namespace

AtomicFile::AtomicFile(const char* op, const std::string& path) : op_(op), path_(path) {
  for (int number = 0; file_ < 0; ++number) {
    temporary_ = path + ".tmp-" + std::to_string(number);
    file_ = claim(temporary_.c_str());
    if (file_ < 0 && errno != EEXIST) fail("can't be created");
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (file_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(std::exchange(file_, -1));
}

void AtomicFile::fail(const char* what) {
  const std::string why = std::strerror(errno);
  discard();  // an uncaught exception runs no destructor
  throw FileError(std::string("[") + op_ + "] " + path_ + " " + what + ": " + why);
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const NoSizeSignal no_signal;
  for (const char* from = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t n = ::write(file_, from, bytes);
    if (n < 0 && errno != EINTR) fail("can't be written");  // LCOV_EXCL_BR_LINE: a signal in this moment
    if (n <= 0) continue;                                   // LCOV_EXCL_BR_LINE
    from += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void AtomicFile::commit(const std::function<void(const std::string& temporary)>& check) {
  if (::fsync(file_) != 0) fail("can't be flushed to the disk");  // LCOV_EXCL_BR_LINE: a disk that breaks
  if (check) check(temporary_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("can't be put in place");
  ::close(std::exchange(file_, -1));
  // The rename is durable once the directory is flushed. Some file systems cannot flush a directory: ignore that.
  const std::size_t slash = path_.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  if (const int d = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); d >= 0) {
    ::fsync(d);
    ::close(d);
  }
}

}  // namespace fit::io
