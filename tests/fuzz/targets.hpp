#pragma once
#include <string>
#include <vector>

/// Readers of files, as fuzzing calls them: libFuzzer by fuzz.cpp, the tests by fuzz_test.cpp.
namespace fit::test {

struct FuzzTarget {
  const char* name;  ///< of its folder in the corpus, too
  /// Reads the file. What is accepted is also written and read again, and must come back the same: else throws
  /// std::logic_error. A file that is refused is a FileError.
  void (*run)(const std::string& path);
  /// Puts right what a blind change breaks first (lengths, checksums), so that what lies behind is reached.
  void (*repair)(std::string& bytes);
};

const std::vector<FuzzTarget>& fuzz_targets();

/// A file in memory.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const;

 private:
  int file_;
};

}  // namespace fit::test
