#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "fit/base/error.hpp"
#include "io/folder_lock.hpp"
#include "io/input_file.hpp"
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
  // LCOV_EXCL_START: it does so within microseconds.
  if (ours && still_named(file, name) && ::ftruncate(file, 0) == 0) return file;
  // LCOV_EXCL_STOP
  if (file >= 0) ::close(file);
  errno = EEXIST;
  return -1;
}

// The folder of a path, with its slash; empty for the current one.
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// The path at the end of symbolic links. The last one may lead to a file that does not exist yet. No circle: stat()
// has followed the links before.
std::string end_of_links(std::string path) {
  char to[PATH_MAX];
  for (ssize_t n; (n = ::readlink(path.c_str(), to, sizeof to)) >= 0;) {
    const std::string next(to, static_cast<std::size_t>(n));
    path = next[0] == '/' ? next : folder_of(path) + next;
  }
  return path;
}

}  // namespace

AtomicFile::AtomicFile(const char* op, const std::string& path) : op_(op), path_(path), target_(path) {
  struct stat old;
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (!exists && errno != ENOENT) fail("can't be created");
  if (exists && !S_ISREG(old.st_mode)) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file_ < 0) fail("can't be written");
    return;
  }
  if (exists && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) fail("can't be written");
  target_ = end_of_links(path);
  for (int number = 0; file_ < 0; ++number) {
    temporary_ = target_ + ".tmp-" + std::to_string(number);
    file_ = claim(temporary_.c_str());
    if (file_ < 0 && errno != EEXIST) fail("can't be created");
  }
  if (!exists) return;
  // A process that may not give a file away keeps it. A file system without permissions has none to keep.
  if (::fchown(file_, old.st_uid, old.st_gid) != 0) errno = 0;
  if (::fchmod(file_, old.st_mode & 0777) != 0) errno = 0;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (file_ < 0) return;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
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
  if (temporary_.empty()) return discard();                       // a device has what was written
  if (::fsync(file_) != 0) fail("can't be flushed to the disk");  // LCOV_EXCL_BR_LINE: a disk that breaks
  if (check) check(temporary_);
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail("can't be put in place");
  ::close(std::exchange(file_, -1));
  // The rename is durable once the directory is flushed. Some file systems cannot flush a directory: ignore that.
  const std::string folder = folder_of(target_);
  if (const int d = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); d >= 0) {
    ::fsync(d);
    ::close(d);
  }
}

void make_folder(const char* op, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw FileError(std::string("[") + op + "] the folder " + folder + " can't be made: " + error.message());
}

void write_file(const char* op, const std::string& path, std::string_view bytes) {
  AtomicFile out(op, path);
  out.write(bytes.data(), bytes.size());
  out.commit();
}

void copy_file(const char* op, const std::string& from, const std::string& to) {
  AtomicFile out(op, to);
  InputFile in(op, from);
  char block[1 << 15];
  while (in.left() > 0) {
    const std::int64_t n = std::min<std::int64_t>(in.left(), sizeof block);
    in.read(block, n);
    out.write(block, static_cast<std::size_t>(n));
  }
  out.commit();
}

}  // namespace fit::io
