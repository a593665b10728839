// Parts of tokenizer.json, each alone. The expected ids and pieces are those of Hugging Face's tokenizers 0.23.3.
#include <random>

#include "common/utf8.hpp"
#include "fit/nn/tokenizer/tokenizer.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace fit::test::tokenizer_parts_test {
namespace {

using Catch::Matchers::Contains;
using Ids = std::vector<std::int64_t>;

const std::string words = R"({"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2}})";
const std::string characters =
    R"({"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": false})";

struct Parts {
  std::string normalizer = "null", pre_tokenizer = characters, model = words, added;
};

std::string escaped(const std::string& text) {
  std::string all;
  for (const char c : text) all.append(c == '\\' || c == '"' ? "\\" : "").push_back(c);
  return all;
}

text::Tokenizer tokenizer(const Parts& parts) {
  const Directory where;
  return text::Tokenizer::load(put(
      where.file("tokenizer.json"),
      R"({"version": "1.0", "truncation": null, "padding": null, "post_processor": null, "decoder": null, "added_tokens": [)" +
          parts.added + R"(], "normalizer": )" + parts.normalizer + R"(, "pre_tokenizer": )" + parts.pre_tokenizer +
          R"(, "model": )" + parts.model + '}'));
}

std::string added(int id, const std::string& content, const std::string& strips) {
  return R"({"id": )" + std::to_string(id) + R"(, "content": ")" + content +
         R"(", "single_word": false, "normalized": false, "special": false, )" + strips + '}';
}

// The pieces into which a pattern splits, with | between them.
std::string pieces(const std::string& pattern, const std::string& given) {
  Parts parts;
  parts.pre_tokenizer = R"({"type": "Split", "pattern": {"Regex": ")" + escaped(pattern) +
                        R"("}, "behavior": "Isolated", "invert": false})";
  std::string all;
  for (const auto& [begin, end] : tokenizer(parts).encoding(given).offsets)
    all +=
        (all.empty() ? "" : "|") + given.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  return all;
}

bool is_utf8(const std::string& text) {
  std::size_t n = 1;
  for (std::size_t at = 0; at < text.size() && n > 0; at += n) n = utf8::sequence_length(text, at);
  return n > 0;
}

}  // namespace

TEST_CASE("a stream of byte tokens is UTF-8 and continues what was shown", "[golden][tokenizers]") {
  std::mt19937 random(3);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::vector<std::string> bytes = {"0A", "20", "41", "C3", "A9", "E2", "82", "AC", "F0", "9F", "98", "80", "FF"};
  for (const char* const family : {"llama_2", "mistral", "gemma"}) {
    const text::Tokenizer tokens = text::Tokenizer::load(std::string(FIT_GOLDEN_DIR "/tokenizers/") + family + ".json");
    for (int i = 0; i < 4000; ++i) {
      Ids ids;
      for (std::size_t n = 1 + below(12); n > 0; --n)
        ids.push_back(below(4) > 0 ? tokens.id("<0x" + bytes[below(bytes.size())] + ">")
                                   : static_cast<std::int64_t>(below(static_cast<std::size_t>(tokens.size()))));
      text::TokenStream stream(tokens);
      std::string shown;
      bool valid = true;
      for (const std::int64_t id : ids) {
        const std::string piece = stream.push(id);
        valid = valid && is_utf8(piece);
        shown += piece;
      }
      const std::string rest = stream.finish(), whole = tokens.decode(ids);
      INFO(family << ", stream " << i << ": shown '" << shown << "', rest '" << rest << "', whole '" << whole << "'");
      REQUIRE((valid && is_utf8(rest)));
      if (whole.compare(0, shown.size(), shown) == 0) REQUIRE(shown + rest == whole);
    }
  }
}

TEST_CASE("what a stream has shown stays when a byte behind it is no character", "[golden][tokenizers]") {
  const text::Tokenizer tokens = text::Tokenizer::load(FIT_GOLDEN_DIR "/tokenizers/mistral.json");
  const auto streamed = [&](const std::vector<std::string>& some) {
    text::TokenStream stream(tokens);
    std::string all;
    for (const std::string& token : some) all += stream.push(tokens.id(token)) + '|';
    return all + stream.finish();
  };
  CHECK(streamed({"<0x0A>", "<0xF0>"}) == "\n||\uFFFD");
  CHECK(streamed({"<0xC3>", "<0xA9>", "<0xF0>"}) == "|\u00E9||\uFFFD");
  CHECK(streamed({"<0x41>", "<0x20>", "<0xF0>", "a"}) == "A| ||\uFFFDa|");
  CHECK(streamed({"<0x41>", "<0x20>", "<0x20>", "<0xF0>"}) == "A| | ||\uFFFD");
  CHECK(streamed({"<0xF0>", "a"}) == "|\uFFFDa|");
  CHECK(streamed({"a", "<0xE2>", "<0x82>", "<0xAC>"}) == "a|||\u20AC|");
  CHECK(tokens.decode(Ids{tokens.id("<0x0A>"), tokens.id("<0xF0>")}) == "\uFFFD\uFFFD");
}

TEST_CASE("added tokens of spaces take each space once", "[tokenizers]") {
  const auto ids = [](const std::string& some, const std::string& given) {
    Parts parts;
    parts.added = some;
    return tokenizer(parts).encoding(given).ids;
  };
  const std::string both = added(3, "  ", R"("lstrip": true, "rstrip": true)");
  CHECK(ids(both, "a    b") == Ids{1, 3, 2});
  CHECK(ids(both, "a     b   ") == Ids{1, 3, 2, 3});
  CHECK(ids(added(3, "  ", R"("lstrip": true, "rstrip": false)"), "a    b") == Ids{1, 3, 3, 2});
  CHECK(ids(added(3, "  ", R"("lstrip": false, "rstrip": true)"), "a    b") == Ids{1, 3, 3, 2});
  const std::string word = added(3, "x", R"("lstrip": false, "rstrip": true)") + ", ";
  CHECK(ids(word + added(4, "  ", R"("lstrip": true, "rstrip": true)"), "ax b     ") == Ids{1, 3, 2, 4});
  CHECK(ids(word + added(4, " b", R"("lstrip": true, "rstrip": false)"), "x   b a") == Ids{3, 4, 0, 1});
}

TEST_CASE("the first line of a file of merges is no merge", "[tokenizers]") {
  Parts parts;
  parts.model = R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["#version: 0.2", "a b"]})";
  parts.pre_tokenizer = "null";
  CHECK(tokenizer(parts).encoding("abab").ids == Ids{2, 2});
  parts.model = R"({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["#version: 0.2", "a b"]})";
  CHECK_THROWS_WITH(tokenizer(parts), Contains("merges[1] is \"a b\""));
}

TEST_CASE("normal forms of what is only alike, with the places in the text", "[tokenizers]") {
  Parts parts;
  parts.model =
      R"({"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "f": 1, "i": 2, "1": 3, "\u00e9": 4, " ": 5,
                    "e": 6, "\u0301": 7, "\u30ab": 8, "\u3099": 9, "\u30ac": 10}})";
  const auto encoding = [&](const std::string& type, const std::string& given) {
    parts.normalizer = R"({"type": ")" + type + R"("})";
    return tokenizer(parts).encoding(given);
  };
  const std::string given = "\uFB01\u2460e\u0301\uFF76\uFF9E";  // ﬁ①é half-width ga
  CHECK(encoding("NFKC", given).ids == Ids{1, 2, 3, 4, 10});
  CHECK(encoding("NFKC", given).offsets == decltype(text::Encoding::offsets){{0, 3}, {0, 3}, {3, 6}, {6, 7}, {9, 12}});
  CHECK(encoding("NFKD", given).ids == Ids{1, 2, 3, 6, 7, 8, 9});
  CHECK(encoding("Nmt",
                 "\x01"
                 "1\u200B\t\u2581\x7F")
            .ids == Ids{3, 5, 5, 5});
}

TEST_CASE("a charsmap that can't be read is an error", "[tokenizers]") {
  const auto refuses = [](const std::string& base64, const std::string& why) {
    INFO(base64);
    Parts parts;
    parts.normalizer = R"({"type": "Precompiled", "precompiled_charsmap": ")" + base64 + R"("})";
    CHECK_THROWS_WITH(tokenizer(parts), Contains(why));
  };
  refuses("AAA", "has 3 characters: expected base64");
  refuses("AA=A", "expected base64");
  refuses("A*AA", "has '*' at character 1: expected base64");
  refuses("", "has 0 bytes");
  refuses("EAAAAAAA", "has 6 bytes, too few for its array");
  refuses("AAAAAP8=", "not UTF-8");
  Parts parts;  // units that lead out of the array
  parts.normalizer = R"({"type": "Precompiled", "precompiled_charsmap": "BAAAAP///38="})";
  CHECK(tokenizer(parts).encoding("ab").ids == Ids{1, 2});
}

}  // namespace fit::test::tokenizer_parts_test
