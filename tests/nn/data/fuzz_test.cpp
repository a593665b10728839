#include <algorithm>
#include <cstdlib>
#include <random>

#include "fit/base/error.hpp"
#include "fit/base/memory.hpp"
#include "fuzz/targets.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

// The files that fuzzing begins with (tests/fuzz), each as it is and changed at random, so many times for each target
// as FIT_MUTATIONS says. tests/fuzz/run goes on from there, led by what the program's branches do.
namespace fit::test::fuzz_test {
namespace {

const char* const corpus_folder = FIT_GOLDEN_DIR "/../fuzz/corpus";

int mutations() {
  const char* const wanted = std::getenv("FIT_MUTATIONS");
  return wanted ? std::atoi(wanted) : 300;
}

void change(std::string& s, std::mt19937& random) {
  const std::size_t at = s.empty() ? 0 : random() % std::min<std::size_t>(s.size(), random() % 2 ? 300 : s.size());
  switch (random() % 5) {
    case 0:
      s.resize(at);
      break;
    case 1:
      if (!s.empty()) s[at] = static_cast<char>(random());
      break;
    case 2:
      if (!s.empty()) s[at] = "0123456789[]{},:\"'-"[random() % 19];
      break;
    case 3:
      s.insert(at, random() % 2 ? "4294967296" : "-1");
      break;
    default:
      s.erase(at, random() % 8);
  }
}

enum class Verdict { read, refused };

// Reads the bytes: anything but success and a FileError fails the test, and leaves the bytes to be looked at.
Verdict tried(const FuzzTarget& target, const std::string& bytes) {
  const MemoryFile file(bytes);
  try {
    target.run(file.path());
    return Verdict::read;
  } catch (const FileError&) {
    return Verdict::refused;
  } catch (const std::exception& e) {
    const std::string kept = (std::filesystem::temp_directory_path() / "fit-fuzzed").string();
    put(kept, bytes);
    FAIL(target.name << ", kept in " << kept << ": " << e.what());
    throw;
  }
}

}  // namespace

TEST_CASE("files of the corpus are read or refused, as their names say", "[fuzz]") {
  for (const FuzzTarget& target : fuzz_targets()) {
    int read = 0, refused = 0;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(corpus_folder) / target.name)) {
      const std::string name = entry.path().filename().string();
      INFO(target.name << '/' << name);
      const bool good = tried(target, get(entry.path().string())) == Verdict::read;
      ++(good ? read : refused);
      if (name.rfind("ok", 0) == 0) CHECK(good);
      if (target.name == std::string("safetensors") && name.rfind("ok", 0) != 0) CHECK_FALSE(good);
    }
    INFO(target.name);
    CHECK(read > 0);
    CHECK(refused > 0);
  }
}

TEST_CASE("files of the corpus, changed at random, are read or refused", "[fuzz]") {
  for (const FuzzTarget& target : fuzz_targets()) {
    std::vector<std::string> corpus;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(corpus_folder) / target.name))
      corpus.push_back(get(entry.path().string()));
    std::sort(corpus.begin(), corpus.end());
    std::mt19937 random(1);
    int refused = 0;
    for (int i = 0; i < mutations(); ++i) {
      std::string bytes = corpus[random() % corpus.size()];
      for (unsigned k = 1 + random() % 3; k > 0; --k) change(bytes, random);
      if (random() % 4 != 0) target.repair(bytes);
      refused += tried(target, bytes) == Verdict::refused;
    }
    INFO(target.name);
    CHECK(refused > mutations() / 20);
  }
}

TEST_CASE("a hostile file of a few bytes takes no memory", "[fuzz]") {
  for (const FuzzTarget& target : fuzz_targets())
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(corpus_folder) / target.name)) {
      const auto before = memory_stats();
      const std::string bytes = get(entry.path().string());
      tried(target, bytes);
      const auto after = memory_stats();
      INFO(target.name << '/' << entry.path().filename().string());
      CHECK(after.live_blocks == before.live_blocks);
      // What was taken meanwhile is in the cache now: deflated zeros are 1 MB, and read twice.
      CHECK(after.cached_bytes + after.live_bytes - before.cached_bytes - before.live_bytes <= std::int64_t{4} << 20);
    }
}

}  // namespace fit::test::fuzz_test
