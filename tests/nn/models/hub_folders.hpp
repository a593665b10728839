#pragma once
#include <filesystem>
#include <string>

#include "support/catch.hpp"
#include "support/files.hpp"

// The folders of tests/golden/hub, and changed copies of them.
namespace fit::test {

inline std::string folder(const std::string& name) { return std::string(FIT_GOLDEN_DIR "/hub/") + name; }

/// A copy of a folder with one file changed.
inline std::string changed(const Directory& where, const std::string& name, const std::string& file,
                           const std::string& from, const std::string& to) {
  const std::string copy = where.file(name);
  std::filesystem::remove_all(copy);
  std::filesystem::copy(folder(name), copy);
  std::string text = get(copy + '/' + file);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  put(copy + '/' + file, text.replace(at, from.size(), to));
  return copy;
}

}  // namespace fit::test
