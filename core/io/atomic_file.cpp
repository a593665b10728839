#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "fit/error.hpp"

namespace fit::io {

AtomicFile::AtomicFile(const char* op, const std::string& path) : op_(op), path_(path) {
  static std::atomic<unsigned> count{0};
  do {
    temporary_ = path + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file_ < 0 && errno == EEXIST);  // left by a process that was killed
  if (file_ < 0) fail("can't be created");
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what) const {
  throw FileError(std::string("[") + op_ + "] " + path_ + " " + what + ": " + std::strerror(errno));
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  for (const char* from = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t n = ::write(file_, from, bytes);
    if (n < 0 && errno != EINTR) fail("can't be written");
    if (n <= 0) continue;
    from += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void AtomicFile::commit() {
  if (::fsync(file_) != 0) fail("can't be flushed to the disk");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("can't be put in place");
  ::close(std::exchange(file_, -1));
  // The new name is on the disk once its directory is; a file system that can't do that has done what it can.
  const std::size_t slash = path_.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  if (const int d = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); d >= 0) {
    ::fsync(d);
    ::close(d);
  }
}

}  // namespace fit::io
