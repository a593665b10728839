#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "fit/fit.hpp"
#include "io/input_file.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// What is no file, and a file that changes under the reader: errors. written_files_test.cpp is about writing.
namespace fit::test::file_faults_test {
namespace {

using Catch::Matchers::Contains;

struct Reader {
  const char* name;
  void (*read)(const std::string& path);
};
const Reader readers[] = {
    {"load_npy", [](const std::string& p) { load_npy(p); }},
    {"load_npz", [](const std::string& p) { load_npz(p); }},
    {"load_safetensors", [](const std::string& p) { load_safetensors(p); }},
    {"load_weights",
     [](const std::string& p) {
       nn::Linear layer(2, 2);
       nn::load_weights(layer, p);
     }},
    {"checkpoint_info", [](const std::string& p) { checkpoint_info(p); }},
    {"read_text", [](const std::string& p) { data::read_text(p); }},
    {"read_lines", [](const std::string& p) { data::read_lines(p); }},
    {"read_csv", [](const std::string& p) { data::read_csv(p); }},
    {"read_idx", [](const std::string& p) { data::read_idx(p); }},
    {"CharVocabulary", [](const std::string& p) { text::CharVocabulary::load(p); }},
    {"BytePairVocabulary", [](const std::string& p) { text::BytePairVocabulary::load(p); }},
    {"WordPieces", [](const std::string& p) { text::WordPieces::load(p); }},
    {"GPT2Vocabulary", [](const std::string& p) { text::GPT2Vocabulary::load(p, p); }},
};

}  // namespace

TEST_CASE("pipes, folders, devices and links to nowhere are errors for every reader", "[files]") {
  const Directory d;
  REQUIRE(mkfifo(d.file("pipe").c_str(), 0600) == 0);
  std::filesystem::create_directory(d.file("folder"));
  std::filesystem::create_symlink(d.file("nothing"), d.file("dangling"));
  std::filesystem::create_symlink(d.file("circle"), d.file("circle"));
  std::filesystem::create_symlink(d.file("pipe"), d.file("to the pipe"));
  for (const Reader& r : readers) {
    for (const std::string& path : {d.file("pipe"), d.file("folder"), std::string("/dev/zero"),
                                    std::string("/dev/null"), d.file("to the pipe")}) {
      INFO(r.name << " of " << path);
      CHECK_THROWS_AS(r.read(path), FileError);
      CHECK_THROWS_WITH(r.read(path), Contains(path) && Contains("it is not a regular file"));
    }
    for (const std::string& path : {d.file("nothing"), d.file("dangling"), d.file("circle"), d.file("folder") + "/x"}) {
      INFO(r.name << " of " << path);
      CHECK_THROWS_WITH(r.read(path), Contains("there is no such file"));
    }
  }
}

TEST_CASE("a link to a file is that file", "[files]") {
  const Directory d;
  save_npy(d.file("x"), arange(3));
  std::filesystem::create_symlink(d.file("x"), d.file("link"));
  CHECK(same_bits(load_npy(d.file("link")), arange(3)));
}

TEST_CASE("who may not read or write is told so", "[files]") {
  const Directory d;
  save_npy(d.file("x"), arange(3));
  chmod(d.file("x").c_str(), 0);
  std::filesystem::create_directory(d.file("closed"));
  save_npy(d.file("closed") + "/x", arange(3));
  chmod(d.file("closed").c_str(), 0555);
  chmod(d.path.c_str(), 0755);
  CHECK(in_child([&] {
          if (geteuid() == 0 && setuid(65534) != 0) return 1;
          if (!refuses([&] { load_npy(d.file("x")); }, "can't be opened for reading")) return 2;
          if (!refuses([&] { save_npy(d.file("closed") + "/y", arange(3)); }, "can't be created")) return 3;
          if (!refuses([&] { save_npy(d.file("closed") + "/x", arange(4)); }, "can't be written")) return 4;
          return load_npy(d.file("closed") + "/x").numel() == 3 ? 0 : 5;
        }) == 0);
  chmod(d.file("closed").c_str(), 0755);
}

TEST_CASE("a file that is cut while it is read is an error", "[files]") {
  const Directory d;
  save_npy(d.file("x"), zeros({1000}));
  io::InputFile file("test", d.file("x"));
  std::vector<char> bytes(4096);
  REQUIRE(truncate(d.file("x").c_str(), 100) == 0);
  CHECK_THROWS_WITH(file.read(bytes.data(), 4096), Contains("[test]") && Contains("found fewer"));

  // By another thread, at any moment: what comes back is the whole or an error.
  save_safetensors(d.file("model"), {{"a", full({3000}, 7)}, {"b", full({3000}, 7)}});
  const std::string whole = get(d.file("model"));
  std::atomic<bool> stop{false};
  std::thread cutter([&] {
    for (unsigned i = 0; !stop; ++i) {
      truncate(d.file("model").c_str(), static_cast<off_t>(i * 977 % whole.size()));
      put(d.file("model"), whole);
    }
  });
  int read = 0, refused = 0, wrong = 0;
  for (int i = 0; i < 300; ++i) try {
      // What was cut away and written anew while it was read may be zero: no reader can tell.
      load_safetensors(d.file("model")).tensors.size() == 2 ? ++read : ++wrong;
    } catch (const FileError&) {
      ++refused;
    }
  stop = true;
  cutter.join();
  CHECK(read + refused == 300);
  CHECK(wrong == 0);
}

TEST_CASE("a tensor may be saved over the file that it was loaded from", "[files]") {
  const Directory d;
  save_safetensors(d.file("m"), {{"a", arange(1000)}, {"b", ones({3})}});
  for (int i = 0; i < 3; ++i) {
    const SafeTensors all = load_safetensors(d.file("m"));
    save_safetensors(d.file("m"), all.tensors);
  }
  CHECK(same_bits(load_safetensors(d.file("m")).tensors.at(0).second, arange(1000)));
}

}  // namespace fit::test::file_faults_test
