#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fit/base/error.hpp"
#include "fit/threads/parallel.hpp"
#include "fuzz/targets.hpp"

// For libFuzzer: tests/fuzz/run builds and starts it. FIT_FUZZ_TARGET names the reader.
namespace {

const fit::test::FuzzTarget& target() {
  static const fit::test::FuzzTarget* const chosen = [] {
    const char* const name = std::getenv("FIT_FUZZ_TARGET");
    for (const fit::test::FuzzTarget& t : fit::test::fuzz_targets())
      if (name && std::strcmp(t.name, name) == 0) return &t;
    std::fprintf(stderr, "FIT_FUZZ_TARGET must be one of:");
    for (const fit::test::FuzzTarget& t : fit::test::fuzz_targets()) std::fprintf(stderr, " %s", t.name);
    std::fprintf(stderr, "\n");
    std::exit(2);
  }();
  return *chosen;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 4 == 0) return size;  // so that what is to be repaired is tried, too
  std::string bytes(reinterpret_cast<const char*>(data), size);
  target().repair(bytes);
  std::memcpy(data, bytes.data(), size);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fit::set_num_threads(1);
  const fit::test::MemoryFile file(std::string(reinterpret_cast<const char*>(data), size));
  try {
    target().run(file.path());
  } catch (const fit::FileError&) {
  }
  return 0;
}
