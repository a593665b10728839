// Tokenizers of the Hub against Hugging Face's, on texts that are hard to cut (tests/golden/tokenizer_files.py).
// FIT_TOKENIZER_FOLDER names another folder with more texts.
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "fit/io/npz.hpp"
#include "fit/nn/tokenizer/tokenizer.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace fit::test::tokenizer_files_test {
namespace {

using Catch::Matchers::Contains;
using Ids = std::vector<std::int64_t>;

std::string folder() {
  const char* const given = std::getenv("FIT_TOKENIZER_FOLDER");
  return given ? given : FIT_GOLDEN_DIR "/tokenizers";
}

std::string file(const std::string& name) { return std::string(FIT_GOLDEN_DIR "/tokenizers/") + name + ".json"; }

class Rows {
 public:
  Rows(const StateDict& arrays, const std::string& name)
      : numbers_(at(arrays, name).to_vector<std::int64_t>()),
        ends_(at(arrays, name + "_ends").to_vector<std::int64_t>()) {}
  std::size_t size() const { return ends_.size(); }
  Ids operator[](std::size_t i) const {
    return Ids(numbers_.begin() + (i == 0 ? 0 : ends_[i - 1]), numbers_.begin() + ends_[i]);
  }
  std::string text(std::size_t i) const {
    const Ids bytes = (*this)[i];
    return std::string(bytes.begin(), bytes.end());
  }

 private:
  Ids numbers_, ends_;
};

std::string shown(const std::string& text) {
  std::string s;
  for (const char c : text.substr(0, 300)) {
    const auto u = static_cast<unsigned char>(c);
    s += u > ' ' && u < 0x7F ? std::string(1, c) : "\\" + std::to_string(u) + ".";
  }
  return s;
}

void check_family(const StateDict& arrays, const std::string& name) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder() + '/' + name + ".json");
  const Rows texts(arrays, "text"), ids(arrays, name), offsets(arrays, name + "/offsets"),
      decoded(arrays, name + "/decoded");
  int wrong = 0;
  for (std::size_t i = 0; i < texts.size() && wrong < 5; ++i) {
    const std::string text = texts.text(i);
    INFO(name << ", text " << i << ": " << shown(text));
    const text::Encoding encoding = tokenizer.encoding(text);
    Ids spans;
    for (const auto& [begin, end] : encoding.offsets) spans.insert(spans.end(), {begin, end});
    const std::string back = tokenizer.decode(encoding.ids);
    std::string streamed;
    text::TokenStream stream(tokenizer);
    for (const std::int64_t id : encoding.ids) streamed += stream.push(id);
    streamed += stream.finish();
    CHECK(encoding.ids == ids[i]);
    CHECK(spans == offsets[i]);
    CHECK(shown(back) == shown(decoded.text(i)));
    CHECK(shown(streamed) == shown(back));
    wrong += encoding.ids != ids[i] || spans != offsets[i] || back != decoded.text(i) || streamed != back;
  }
  REQUIRE(wrong == 0);
}

}  // namespace

TEST_CASE("tokenizer.json gives the reference's ids, offsets and texts", "[golden][tokenizers]") {
  const StateDict arrays = load_npz(folder() + "/texts.npz");
  int families = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (entry.path().extension() == ".json") check_family(arrays, entry.path().stem().string()), ++families;
  CHECK(families == 20);
}

TEST_CASE("a tokenizer that was trained is written and read", "[tokenizers]") {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "The cat sat on the mat, didn't it? 1234 times.<|end|>\n\n";
  const auto o = text::TokenizerOptions().vocab_size(300).special_tokens({"<|end|>", "<|pad|>"});
  const text::Tokenizer tokenizer = text::Tokenizer::train(text, o);
  CHECK(tokenizer.size() <= 300);
  CHECK(tokenizer.size() > 270);
  CHECK(tokenizer.id("<|end|>") == 0);
  const std::string given = "The cat \xC3\xA9\xF0\x9F\x98\x80<|end|> 12345\r\n";
  const Ids ids = tokenizer.encoding(given).ids;
  CHECK(tokenizer.decode(ids, text::SpecialTokens::with) == given);
  CHECK(tokenizer.decode(ids) == "The cat \xC3\xA9\xF0\x9F\x98\x80 12345\r\n");
  CHECK(tokenizer.id("\xC4\xA0"
                     "cat") > 0);  // Ġcat
  CHECK(tokenizer.token(tokenizer.id("\xC4\xA0"
                                     "cat")) == " cat");
  const Directory where;
  tokenizer.save(where.file("tokenizer.json"));
  const text::Tokenizer again = text::Tokenizer::load(where.file("tokenizer.json"));
  CHECK(again.encoding(given).ids == ids);
  CHECK_THROWS_WITH(text::Tokenizer::train(text, text::TokenizerOptions(o).vocab_size(257)),
                    Contains("vocab_size is 257: it must be at least 258"));
  CHECK_THROWS_WITH(text::Tokenizer::train(text, text::TokenizerOptions(o).special_tokens({"a", "a"})),
                    Contains("there twice"));
  CHECK_THROWS_WITH(text::Tokenizer::train(text, text::TokenizerOptions(o).pattern("(a)\\1")),
                    Contains("an escape that is not known"));
}

TEST_CASE("words that come again are cut as the first time, by several threads, too", "[tokenizers]") {
  // More words than are kept, and one too long to be kept.
  std::string all = std::string(100, 'x') + " tokenizers";
  for (int i = 0; i < 33'000; ++i) all += " w" + std::to_string(i) + (i % 3 == 0 ? ", the" : "\n");
  all += ' ' + std::string(100, 'x') + " tokenizers";
  for (const char* const family : {"gpt2", "bert"}) {
    INFO(family);
    const text::Tokenizer tokenizer = text::Tokenizer::load(file(family));
    const text::Encoding expected = tokenizer.encoding(all);
    std::vector<text::Encoding> found(2);
    std::vector<std::thread> threads;
    for (text::Encoding& one : found) threads.emplace_back([&] { one = tokenizer.encoding(all); });
    for (std::thread& thread : threads) thread.join();
    for (const text::Encoding& one : found) {
      CHECK(one.ids == expected.ids);
      CHECK(one.tokens == expected.tokens);
      CHECK(one.offsets == expected.offsets);
    }
    // The words behind the first one alone.
    const std::size_t at = all.find(" w30001");
    const text::Encoding begin = tokenizer.encoding(all.substr(0, at), text::SpecialTokens::without);
    const text::Encoding whole = tokenizer.encoding(all, text::SpecialTokens::without);
    REQUIRE(begin.ids.size() < whole.ids.size());
    CHECK(std::equal(begin.ids.begin(), begin.ids.end(), whole.ids.begin()));
    CHECK(std::equal(begin.offsets.begin(), begin.offsets.end(), whole.offsets.begin()));
    CHECK(whole.offsets.back().second == static_cast<std::int64_t>(all.size()));
  }
}

TEST_CASE("several texts are padded, and cut so that the special tokens stay", "[tokenizers]") {
  const text::Tokenizer tokenizer = text::Tokenizer::load(file("bert"));
  const text::Batch batch = tokenizer.encode({"the king", "my lord, the king is here to see you"}, 6);
  REQUIRE(batch.ids.shape() == Shape{2, 6});
  REQUIRE(batch.mask.shape() == Shape{2, 1, 6});
  const Ids ids = batch.ids.to_vector<std::int64_t>();
  CHECK(ids[0] == tokenizer.id("[CLS]"));
  CHECK(ids[6] == tokenizer.id("[CLS]"));
  CHECK(ids[11] == tokenizer.id("[SEP]"));
  const Ids alone = tokenizer.encoding("the king").ids;
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(batch.mask.flatten()[static_cast<std::int64_t>(i)].item() == (i < alone.size() ? 1 : 0));
    if (i < alone.size()) CHECK(ids[i] == alone[i]);
  }
  CHECK_THROWS_WITH(tokenizer.encode(std::vector<std::string>{}), Contains("there are no texts"));
  CHECK_THROWS_WITH(tokenizer.encode({"a"}, 1), Contains("max_length is 1: it must be 0 (all) or at least 2"));
}

TEST_CASE("patterns that need much backtracking elsewhere take no time here", "[tokenizers]") {
  const auto o = text::TokenizerOptions().vocab_size(256);
  for (const char* pattern : {"(?:a*)*b", "(?:a|a)*b", "(?:a?){30}a{30}", "\\s+(?!\\S)|\\s+", "(?:(?:a+)+)+$|b"}) {
    INFO(pattern);
    try {
      const text::Tokenizer tokenizer = text::Tokenizer::train("", text::TokenizerOptions(o).pattern(pattern));
      CHECK(tokenizer.encoding(std::string(3000, 'a')).ids.size() == 3000);
    } catch (const Error& e) {
      CHECK(std::string(e.what()).find("can't be read here") != std::string::npos);
    }
  }
}

TEST_CASE("a pattern that matches between characters splits there", "[tokenizers]") {
  const Directory where;
  const auto ids = [&](const std::string& pattern, const std::string& behavior, const std::string& text) {
    const std::string path = put(where.file("tokenizer.json"),
                                 R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
      "normalizer": null, "post_processor": null, "decoder": null,
      "pre_tokenizer": {"type": "Split", "pattern": {"Regex": ")" +
                                     pattern + R"("}, "behavior": ")" + behavior +
                                     R"(", "invert": false},
      "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "1": 1, "234": 2, "567": 3, "one": 4, "Two": 5}}})");
    return values(text::Tokenizer::load(path).encode(text));
  };
  const std::string thousands = "(?=(?:[0-9]{3})+(?![0-9]))";
  CHECK(ids(thousands, "Isolated", "1234567") == std::vector<double>{1, 2, 3});
  CHECK(ids(thousands, "Removed", "1234567") == std::vector<double>{1, 2, 3});
  CHECK(ids("(?=[A-Z])", "Isolated", "oneTwoTwo") == std::vector<double>{4, 5, 5});
  CHECK(ids("(?=[A-Z])", "MergedWithNext", "oneTwo") == std::vector<double>{4, 5});
  // \w of a class has no fractions and exponents of Latin-1, \w alone has.
  CHECK(ids(R"(\\w+)", "Isolated", "one\xC2\xBDTwo").size() == 1);
  CHECK(ids(R"([\\w]+)", "Isolated", "one\xC2\xBDTwo") == std::vector<double>{4, 0, 5});
  CHECK(ids(R"([^\\w\\s]+)", "Removed", "one\xC2\xB2Two") == std::vector<double>{4, 5});
}

TEST_CASE("what a tokenizer.json asks for and is not known names file and key", "[tokenizers]") {
  const Directory where;
  const auto refuses = [&](const std::string& name, const std::string& from, const std::string& to,
                           const std::string& why) {
    INFO(to);
    std::string text = get(file(name));
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    const std::string path = put(where.file("tokenizer.json"), text.replace(at, from.size(), to));
    CHECK_THROWS_AS(text::Tokenizer::load(path), FileError);
    CHECK_THROWS_WITH(text::Tokenizer::load(path), Contains("tokenizer.json") && Contains(why));
  };
  refuses("qwen2", "\"type\":\"NFC\"", "\"type\":\"NFX\"", "normalizer.type is 'NFX': those known here are");
  refuses("qwen2", "\"type\":\"Split\"", "\"type\":\"UnicodeScripts\"",
          "pre_tokenizer.pretokenizers[0].type is 'UnicodeScripts'");
  refuses("qwen2", "(?i:", "(?<=a", "a group that is not known");
  refuses("qwen2", "\"behavior\":\"Isolated\"", "\"behavior\":\"Random\"", "behavior is 'Random'");
  refuses("gpt2", "\"fuse_unk\":false", "\"fuse_unk\":1", "model.fuse_unk is 1: expected true or false");
  refuses("gpt2", "\"dropout\":null", "\"dropout\":0.5", "model.dropout is 0.5");
  refuses("gpt2", "\"ignore_merges\":false", "\"new\":true", "model.new is true: this key is not known here");
  refuses("gpt2", "\"!\":1", "\"!\":2", "the id 2 twice");
  refuses("gpt2", "\"!\":1", "\"!\":-1", "the token '!' with the id -1");
  refuses("gpt2", "\"id\":0", "\"id\":7", "added_tokens[0].id is 7, and 0 in the vocabulary");
  refuses("bert", "\"ids\":[2]", "\"ids\":[9999]", "post_processor adds the token 9999");
  refuses("bert", "\"unk_token\":\"[UNK]\"", "\"unk_token\":\"[NO]\"", "model.unk_token is '[NO]': it is not in vocab");
  refuses("unigram", "\"unk_id\":2", "\"unk_id\":2000", "model.unk_id is 2000");
  refuses("unigram", "\"replacement\":\"\u2581\"", "\"replacement\":\"\"",
          "pre_tokenizer.replacement is '': expected one character");
  refuses("unigram", "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\"",
          "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\"", "decoder.replacement is ''");
  refuses("unigram", "\"model\"", "\"model\":{},\"model\"", "stands twice");
  refuses("llama_2", "\"Prepend\"", "\"ByteLevel\"", "normalizer.normalizers[0].type is 'ByteLevel'");
}

}  // namespace fit::test::tokenizer_files_test
