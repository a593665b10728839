// Files that released versions wrote can be loaded for ever (tests/golden/released).
#include <filesystem>
#include <string>
#include <vector>

#include "fit/tensor/lookup.hpp"
#include "golden/released/contents.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

namespace fit::test::released_test {
using fit::test::max_difference;
using fit::test::same_bits;

namespace {

// Calls f(path) for the folder of each version, on every instruction set. `path` ends with a slash.
template <class F>
void each_version(const F& f) {
  int versions = 0;
  for (const auto& folder : std::filesystem::directory_iterator(FIT_GOLDEN_DIR "/released")) {
    if (!folder.is_directory()) continue;
    ++versions;
    INFO(folder.path());
    each_isa([&] { f(folder.path().string() + '/'); });
  }
  REQUIRE(versions > 0);
}

void check_same(const StateDict& loaded, const StateDict& expected) {
  CHECK(loaded.size() == expected.size());
  for (const auto& [name, x] : expected) {
    INFO(name);
    REQUIRE(contains(loaded, name));
    CHECK(same_bits(at(loaded, name), x));
  }
}

}  // namespace

TEST_CASE("arrays of released versions load", "[released]") {
  each_version([](const std::string& folder) {
    check_same(load_safetensors(folder + "tensors.safetensors", keep_bfloat16).tensors, released::tensors());
    StateDict plain;
    for (const auto& [name, x] : released::tensors())
      if (x.dtype() != bfloat16 && x.dtype() != int8) plain.emplace_back(name, x);
    check_same(load_npz(folder + "tensors.npz"), plain);
    CHECK(same_bits(load_npy(folder + "matrix.npy"), released::pattern({2, 5}, float32)));
  });
}

TEST_CASE("weights of released versions load, and mean the same", "[released]") {
  each_version([](const std::string& folder) {
    nn::GPT gpt(released::gpt_options()), expected(released::gpt_options());
    gpt.eval();
    released::fill(expected);
    nn::load_weights(gpt, folder + "weights.safetensors");
    check_same(gpt.state_dict(), expected.state_dict());
    CHECK(max_difference(gpt(released::gpt_input()).detach(), load_npy(folder + "logits.npy")) < 1e-5);
    nn::quantize_(gpt);
    nn::quantize_(expected);
    nn::load_weights(gpt, folder + "weights_int8.safetensors");
    check_same(gpt.state_dict(), expected.state_dict());
    CHECK(max_difference(gpt(released::gpt_input()).detach(), load_npy(folder + "logits_int8.npy")) < 1e-5);
  });
}

TEST_CASE("a training resumes from the checkpoint of a released version", "[released]") {
  each_version([](const std::string& folder) {
    const std::string file = folder + "checkpoint.safetensors";
    CHECK(checkpoint_info(file).step == 2);
    released::Training training;
    Checkpoint checkpoint = training.checkpoint();
    checkpoint.load(file);
    CHECK(checkpoint.step == 2);
    CHECK(checkpoint.config.at("layers") == "1");
    CHECK(training.optimizer.lr() == 0.0625);
    std::size_t batches = 0;
    for (const auto& batch : training.loader) batches += batch.size();
    CHECK(batches == 1);  // the epoch goes on behind the second of three
    training.step();
    training.step();
    const StateDict later = load_npz(folder + "later.npz");
    for (const auto& [name, p] : training.model.named_parameters())
      CHECK(max_difference(p.detach(), at(later, name)) < 1e-6);
    CHECK(same_bits(rand({3}), at(later, "drawn")));
  });
}

TEST_CASE("logs and vocabularies of released versions load", "[released]") {
  each_version([](const std::string& folder) {
    const test::Directory temporary;
    const std::string copy = temporary.file("metrics.jsonl");
    std::filesystem::copy_file(folder + "metrics.jsonl", copy);
    const MetricsLog log(copy, 2);  // goes on behind step 2
    CHECK(log.rows() == released::log_rows());
    const auto characters = text::CharVocabulary::load(folder + "characters.json");
    const auto pairs = text::BytePairVocabulary::load(folder + "byte_pairs.json");
    const auto learned = text::BytePairVocabulary::train(released::sample, 262);
    CHECK(characters.decode(characters.encode(released::sample)) == released::sample);
    CHECK(characters.size() == text::CharVocabulary(released::sample).size());
    CHECK(pairs.merges() == learned.merges());
    CHECK(same_bits(pairs.encode(released::sample), learned.encode(released::sample)));
  });
}

}  // namespace fit::test::released_test
