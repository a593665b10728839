#include <zlib.h>

#include <array>
#include <cstdlib>
#include <random>

#include "fit/io/npy.hpp"
#include "fit/io/npz.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/nn/data/readers.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/tokenizers/text.hpp"
#include "fit/nn/training/checkpoint.hpp"
#include "fit/nn/weights/weights.hpp"
#include "nn/models/small_model.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

// Files that were damaged at random: each is read, or refused with a FileError; nothing else, least of all a crash.
// FIT_MUTATIONS sets how many of each kind are tried: 100000, with the address sanitizer, after a change of a reader.
namespace fit::test::corrupted_files_test {
namespace {

int mutations() {
  const char* const wanted = std::getenv("FIT_MUTATIONS");
  return wanted ? std::atoi(wanted) : 200;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string operator()(std::string bytes) {
    for (int changes = 1 + static_cast<int>(below(3)); changes > 0; --changes) change(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  // Half of the changes are in the first bytes, where headers are.
  std::size_t place(const std::string& s) {
    return below(below(2) == 0 ? std::min<std::size_t>(s.size(), 400) : s.size());
  }

  void change(std::string& s) {
    const std::size_t at = place(s);
    switch (below(7)) {
      case 0:
        s.resize(at);
        break;
      case 1:
        if (!s.empty()) s[at] = static_cast<char>(s[at] ^ 1 << below(8));
        break;
      case 2:
        if (!s.empty()) s[at] = static_cast<char>(below(256));
        break;
      case 3:
        if (!s.empty()) s[at] = "0123456789[]{},:\"'-.() \n"[below(24)];
        break;
      case 4:
        s.erase(at, below(9));
        break;
      case 5:
        s.insert(at, s.substr(place(s), below(40)));
        break;
      default:  // what stands for much
        s.insert(at, std::array<const char*, 5>{"99999999999999999999", "4294967295", "\xFF\xFF\xFF\xFF", "-1",
                                                "[[[["}[below(5)]);
    }
  }

  std::mt19937 random_;
};

// Reads damaged forms of a file's bytes. `read` may throw FileError alone.
template <class Read>
void check_corrupted(const std::string& good, const Read& read) {
  const Directory d;
  Mutator mutated(1);
  int refused = 0;
  for (int i = 0; i < mutations(); ++i) {
    const std::string bad = mutated(good);
    std::filesystem::remove(d.file("bad"));  // a file that is written over may be flushed to the disk each time
    try {
      read(put(d.file("bad"), bad));
    } catch (const FileError&) {
      ++refused;
    } catch (const std::exception& e) {
      const std::string kept = (std::filesystem::temp_directory_path() / "fit-damaged").string();
      put(kept, bad);
      FAIL("mutation " << i << ", kept in " << kept << ": " << e.what());
    }
  }
  CHECK(refused > mutations() / 10);
}

template <class Save>
std::string bytes_of(const Save& save) {
  const Directory d;
  save(d.file("good"));
  return get(d.file("good"));
}

}  // namespace

TEST_CASE("corrupted files: safetensors", "[corrupted]") {
  check_corrupted(
      bytes_of([](const std::string& path) {
        save_safetensors(
            path, {{"a", tensor({1., 2., 3.})}, {"b.c", tensor({{true}, {false}})}, {"d", arange(4)}, {"e", ones({})}},
            {{"key", "value"}});
      }),
      [](const std::string& path) { load_safetensors(path); });
}

TEST_CASE("corrupted files: npy", "[corrupted]") {
  for (const Tensor& x : {rand({2, 3}), arange(5), tensor({true, false})})
    check_corrupted(bytes_of([&](const std::string& path) { save_npy(path, x); }),
                    [](const std::string& path) { load_npy(path); });
}

TEST_CASE("corrupted files: npz, stored and deflated", "[corrupted]") {
  check_corrupted(bytes_of([](const std::string& path) {
                    save_npz(path, {{"a", rand({2, 3})}, {"b", arange(5)}});
                  }),
                  [](const std::string& path) { load_npz(path); });
  check_corrupted(get(FIT_GOLDEN_DIR "/numpy_compressed.npz"), [](const std::string& path) { load_npz(path); });
}

TEST_CASE("corrupted files: an index of several files", "[corrupted]") {
  const Directory d;
  for (const char* name : {"a", "b"}) save_safetensors(d.file(name), {{name, arange(3)}});
  int readable = 0;
  Mutator mutated(2);
  for (int i = 0; i < mutations(); ++i) {
    put(d.file("index.json"), mutated(R"({"metadata": {"total_size": 48}, "weight_map": {"a": "a", "b": "b"}})"));
    try {
      load_safetensors(d.file("index.json"));
      ++readable;
    } catch (const FileError&) {
    }
  }
  CHECK(readable < mutations());
}

TEST_CASE("corrupted files: checkpoints, and the training is untouched", "[corrupted]") {
  SmallTraining t;
  t.run(2);
  Checkpoint c;
  c.add("model", *t.model).add("optimizer", *t.optimizer).add("schedule", *t.schedule).add("loader", t.loader);
  const std::string good = bytes_of([&](const std::string& path) { c.save(path); });
  const auto before = copied(*t.model);
  const auto loader = t.loader.state_dict();
  check_corrupted(good, [&](const std::string& path) {
    if (get(path) == good) return;
    CHECK_THROWS_AS(c.load(path), FileError);
    CHECK(same_state(t.model->state_dict(), before));
    CHECK(same_state(t.loader.state_dict(), loader));
    throw FileError("as it must");
  });
}

TEST_CASE("corrupted files: vocabularies", "[corrupted]") {
  check_corrupted(bytes_of([](const std::string& path) { text::CharVocabulary("aber größer \"\\").save(path); }),
                  [](const std::string& path) { text::CharVocabulary::load(path); });
  check_corrupted(bytes_of([](const std::string& path) {
                    text::BytePairVocabulary::train("the cat sat on the mat, the cat sat", 270).save(path);
                  }),
                  [](const std::string& path) { text::BytePairVocabulary::load(path).encode("the cat"); });
}

TEST_CASE("corrupted files: CSV", "[corrupted]") {
  check_corrupted("\xEF\xBB\xBFname,x,y\n1,1.5,-2\n2,\" 3\",  4 \n\n7,1e9,nan\n", [](const std::string& path) {
    const data::Csv csv = data::read_csv(path);
    csv.numbers({}, int64);
  });
}

TEST_CASE("corrupted files: IDX, as it is and compressed", "[corrupted]") {
  const std::string plain = std::string("\0\0\10\3\0\0\0\2\0\0\0\3\0\0\0\2", 16) + std::string(12, '\7');
  const std::string gz = bytes_of([&](const std::string& path) {
    const gzFile f = gzopen(path.c_str(), "wb");
    gzwrite(f, plain.data(), static_cast<unsigned>(plain.size()));
    gzclose(f);
  });
  for (const std::string& good : {plain, gz})
    check_corrupted(good, [](const std::string& path) { data::read_idx(path); });
}

TEST_CASE("corrupted files: a GPT far larger than its file is refused before it is made", "[corrupted]") {
  const Directory d;
  const std::string path = d.file("gpt.safetensors");
  for (const auto positions : {nn::Positions::rotary, nn::Positions::sinusoidal, nn::Positions::learned}) {
    const auto o = nn::GPTOptions().vocab_size(8).context_length(8).num_layers(1).num_heads(2).d_model(8);
    nn::save_weights(path, nn::GPT(nn::GPTOptions(o).positions(positions)));
    const SafeTensors good = load_safetensors(path);
    for (const char* const option :
         {"num_layers", "context_length", "num_heads", "num_kv_heads", "head_size", "d_model", "hidden", "vocab_size"})
      for (const char* const value : {"100000000", "1000000000000", "9000000000000000000", "-1"}) {
        INFO(option << " " << value);
        auto metadata = good.metadata;
        metadata.at(std::string("options.") + option) = value;
        save_safetensors(path, good.tensors, metadata);
        CHECK_THROWS_AS(nn::GPT::load(path), FileError);
      }
  }
}

}  // namespace fit::test::corrupted_files_test
