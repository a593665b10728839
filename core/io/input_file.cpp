#include "io/input_file.hpp"

#include <filesystem>
#include <utility>

namespace fit::io {

InputFile::InputFile(const char* op, const std::string& path) : op_(op), path_(path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) fail("there is no such file");
  // Checked before open(), because opening a pipe blocks until a writer opens it.
  if (!std::filesystem::is_regular_file(path, error)) fail("it is not a regular file");
  size_ = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
  file_.reset(std::fopen(path.c_str(), "rb"));
  if (error || !file_) fail("it can't be opened for reading");
}

InputFile::InputFile(const char* op, const std::string& name, std::string bytes)
    : op_(op), path_(name), bytes_(std::move(bytes)), size_(static_cast<std::int64_t>(bytes_.size())) {}

void InputFile::seek(std::int64_t position) {
  if (position < 0 || position > size_ || (file_ && fseeko(file_.get(), position, SEEK_SET) != 0))
    fail("byte ", position, " is not in the file");
  at_ = position;
}

void InputFile::read(void* to, std::int64_t bytes) {
  const auto n = static_cast<std::size_t>(bytes);
  if (bytes > left() || (file_ ? std::fread(to, 1, n, file_.get())
                               : bytes_.copy(static_cast<char*>(to), n, static_cast<std::size_t>(at_))) != n)
    fail("expected ", bytes, " bytes at byte ", at_, ", found fewer");
  at_ += bytes;
}

std::string InputFile::rest() {
  std::string all(static_cast<std::size_t>(left()), '\0');
  read(all.data(), left());
  return all;
}

std::string shown(std::string bytes) {
  for (char& c : bytes)
    if (c < ' ' || c > '~') c = '?';
  return bytes.size() > 24 ? bytes.substr(0, 24) + "..." : bytes;
}

}  // namespace fit::io
