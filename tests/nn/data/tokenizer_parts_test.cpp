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
  std::string normalizer = "null", pre_tokenizer = characters, model = words, added, post_processor = "null";
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
      R"({"version": "1.0", "truncation": null, "padding": null, "decoder": null, "post_processor": )" +
          parts.post_processor + R"(, "added_tokens": [)" + parts.added + R"(], "normalizer": )" + parts.normalizer +
          R"(, "pre_tokenizer": )" + parts.pre_tokenizer + R"(, "model": )" + parts.model + '}'));
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

TEST_CASE("a sign before the first word alone is not before the same word behind it", "[tokenizers]") {
  Parts parts;
  parts.pre_tokenizer = R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
                            {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}]})";
  parts.model = R"({"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "\u2581a": 2}})";
  const text::Tokenizer found = tokenizer(parts);
  using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;
  CHECK(found.encoding("a a a").ids == Ids{2, 1, 1});
  CHECK(found.encoding("a a a").offsets == Spans{{0, 1}, {2, 3}, {4, 5}});
  CHECK(found.encoding(" a a").ids == Ids{1, 1});
}

TEST_CASE("the first line of a file of merges is no merge", "[tokenizers]") {
  Parts parts;
  parts.model = R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["#version: 0.2", "a b"]})";
  parts.pre_tokenizer = "null";
  CHECK(tokenizer(parts).encoding("abab").ids == Ids{2, 2});
  parts.model = R"({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["#version: 0.2", "a b"]})";
  CHECK_THROWS_WITH(tokenizer(parts), Contains("merges[1] is \"a b\""));
}

TEST_CASE("bytes of a prefix or suffix that a word lacks have a place in the text", "[tokenizers]") {
  Parts parts;
  parts.model = R"({"type": "BPE", "unk_token": "?", "byte_fallback": true, "end_of_word_suffix": "</w>", "merges": [],
                    "vocab": {"?": 0, "a": 1, "##a": 2, "<0xC3>": 3, "<0xA9>": 4, "<0x23>": 5, "<0x3C>": 6,
                              "<0x2F>": 7, "<0x77>": 8, "<0x3E>": 9}})";
  parts.pre_tokenizer = "null";
  const text::Encoding e = tokenizer(parts).encoding("a\u00e9");
  CHECK(e.ids == Ids{1, 3, 4, 6, 7, 8, 9});
  CHECK(e.offsets.size() == e.ids.size());
  for (std::size_t i = 1; i < e.offsets.size(); ++i) CHECK(e.offsets[i] == std::pair<std::int64_t, std::int64_t>(1, 3));
}

TEST_CASE("what no unigram stands for is a token of its own text", "[tokenizers]") {
  Parts parts;
  parts.model = R"({"type": "Unigram", "unk_id": 0, "vocab": [["?", 0.0], ["a", -1.0]]})";
  parts.post_processor = R"({"type": "ByteLevel", "trim_offsets": true, "add_prefix_space": true})";
  parts.pre_tokenizer = "null";
  const text::Encoding e = tokenizer(parts).encoding("a xy ");
  CHECK(e.ids == Ids{1, 0});
  CHECK(e.tokens == std::vector<std::string>{"a", " xy "});
  CHECK(e.offsets == std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1}, {2, 4}});
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

TEST_CASE("patterns split as in the reference", "[golden][tokenizers]") {
  struct Row {
    const char *pattern, *text, *pieces;
  };
  const Row rows[] = {
      {"\\p{N}{1,3}+", "12345 6", "12345| |6"},
      {"(?>\\p{N}{1,3})", "12345 6", "123|45| |6"},
      {"a*+a", "aaa", "aaa"},
      {"a?+a", "aaa", "aa|a"},
      {"[ab]++", "abcba", "ab|c|ba"},
      {"(?>a|ab)c", "abc ac", "abc |ac"},
      {"(?>[ab]+)b?", "abab c", "abab| c"},
      {"(?:-*+\u00e9?|-?\\s)*", "\u00e9-  x", "\u00e9-| | |x"},
      {"a+?", "aa", "a|a"},
      {"a?\?b", "ab", "ab"},
      {"a{1,2}?", "aaa", "a|a|a"},
      {"a{2}?", "aaaa", "aa|aa"},
      {"a{,2}", "aaaa", "aa|aa"},
      {"a{2}{2}", "aaaaa", "aaaa|a"},
      {"a{x}", "a{x}", "a{x}"},
      {"^a", "a\na\n", "a|\n|a|\n"},
      {"a$", "a\na", "a|\n|a"},
      {"^", "ab\ncd\n", "ab\n|cd\n"},
      {"$", "ab\ncd\n", "ab|\ncd|\n"},
      {"\\Aa", "aaa", "a|aa"},
      {"a\\z", "aaa", "aa|a"},
      {"a\\Z", "aa\n", "a|a|\n"},
      {"\\b", "ab cd", "ab| |cd"},
      {"\\B", "abc d", "a|b|c d"},
      {"\\b\303\251+\\b", "\303\251\303\251 \303\251a", "\303\251\303\251| \303\251a"},
      {"(?i)b|c", "aBC", "a|B|C"},
      {"a(?i)b|c", "aBaC C", "aB|aC| C"},
      {"(?i)a(?-i)b", "AbAB", "Ab|AB"},
      {"(?-i:a)", "aA", "a|A"},
      {"(?i:k)", "kK\342\204\252", "k|K|\342\204\252"},
      {"(?i)\\x41", "aA", "a|A"},
      {"\\x41\\x{4e00}\\u4e01", "A\344\270\200\344\270\201", "A\344\270\200\344\270\201"},
      {"\\h+", "0aFg", "0aF|g"},
      {"\\H+", "0aFg", "0aF|g"},
      {"[\\x41-\\x43]+", "ABCD", "ABC|D"},
      {"\\e\\f\\a\\v", "\033\014\007\013", "\033\014\007\013"},
      {"[\\b]", "a\010b", "a|\010|b"},
      {"\\p{Z}", "a b\343\200\200", "a| |b|\343\200\200"},
      {"\\p{Mn}+", "e\314\201x", "e|\314\201|x"},
      {"\\p{Pd}", "a-b\342\200\224", "a|-|b|\342\200\224"},
      {"\\p{Sc}", "5\342\202\254 $", "5|\342\202\254| |$"},
      {"\\p{Nl}", "a\342\205\2478", "a|\342\205\247|8"},
      {"\\p{C}+", "a\342\200\215\001b", "a|\342\200\215\001|b"},
      {"\\p{Cn}", "a\315\270b", "a|\315\270|b"},
      {"\\P{^Lu}+", "aABb", "a|AB|b"},
      {"\\p{Han}+", "a\346\274\242\345\255\227b", "a|\346\274\242\345\255\227|b"},
      {"\\p{Hiragana}+", "\343\201\213\343\202\253", "\343\201\213|\343\202\253"},
      {"\\p{Katakana}+", "\343\201\213\343\202\253\343\202\277", "\343\201\213|\343\202\253\343\202\277"},
      {"\\p{Hangul}+", "a\355\225\234\352\265\255b", "a|\355\225\234\352\265\255|b"},
      {"\\p{Thai}+", "a\340\270\252\340\270\247\340\270\261b", "a|\340\270\252\340\270\247\340\270\261|b"},
      {"\\p{Cyrillic}+", "a\320\274\320\270\321\200b", "a|\320\274\320\270\321\200|b"},
      {"\\p{Greek}+", "a\316\273\317\214\316\263b", "a|\316\273\317\214\316\263|b"},
      {"\\p{Latin}+", "\316\273a\303\251\316\273", "\316\273|a\303\251|\316\273"},
      {"\\p{Arabic}+", "a\330\271\330\261\330\250b", "a|\330\271\330\261\330\250|b"},
      {"\\p{Hebrew}+", "a\327\251\327\234b", "a|\327\251\327\234|b"},
      {"\\p{Devanagari}+", "a\340\244\250\340\244\256b", "a|\340\244\250\340\244\256|b"},
      {"[a-z&&[^b]]+", "abcd", "a|b|cd"},
      {"[\\p{L}&&[^\\p{Han}]]+", "ab\346\274\242c", "ab|\346\274\242|c"},
      {"[a-c&&b-d&&c]+", "abcd", "ab|c|d"},
      {"[^a-c&&b-d]+", "abcd", "a|bc|d"},
      {"[a[b-d]]+", "abcde", "abcd|e"},
      {"[^a[b]]+", "abcd", "ab|cd"},
      {" ?[^(\\s|[.,!?])]+", "Hi (you), no", "Hi| (|you|),| no"},
      {"[]a]+", "a]b", "a]|b"},
      {"[^]a]+", "a]b", "a]|b"},
      {"[a-c-e]+", "a-ed", "a-e|d"},
      {"(?:|a)*", "aa", "a|a"},
      {"(?:a|)*", "aa", "aa"},
      {"(?:a*)*b", "aab", "aab"},
      {"(?:a?\?)*", "aa", "a|a"},
      {"[\\r\\n]*+\\s++$|\\s", "a \n ", "a| \n "}};
  for (const Row& row : rows) {
    INFO(row.pattern);
    CHECK(pieces(row.pattern, row.text) == row.pieces);
  }
}

TEST_CASE("a pattern that is not known here is an error with its place", "[tokenizers]") {
  const std::pair<const char*, const char*> refused[] = {
      {"(?<=a)b", "a group that is not known at character 2"},
      {"(?<n>a)", "a group that is not known"},
      {"(?m:.)", "a group that is not known"},
      {"(a)\\1", "an escape that is not known"},
      {"\\R", "an escape that is not known"},
      {"\\p{Letter}", "a class that is not known, \\p{Letter} (known are the categories, such as Lu, and the scripts"},
      {"\\pL", "a class that is not \\p{…}"},
      {"[[:alpha:]]", "a class [:…:]"},
      {"\\xE9", "a number of a character that is none"},
      {"\\x{D800}", "a number of a character that is none"},
      {"[\\w-a]", "a range that begins with a class"},
      {"[a-\\d]", "a range without an end"},
      {"[b-a]", "a range that falls"},
      {"[a", "an end that is missing"},
      {"(a", "'(' without ')'"},
      {"a)", "')' without '('"},
      {"+a", "a repetition of nothing"},
      {"{2}", "a repetition of nothing"},
      {"^*", "a repetition of what has no characters"},
      {"a*?*", "a repetition of a lazy or possessive repetition"},
      {"a{3,2}", "with m below n"},
      {"a{1001}", "a repetition of more than 1000 times"},
      {"(?:a{1000}){1000}", "more than 10000 steps"},
      {"(?i:\xC3\xA9)", "a letter beyond ASCII in a group (?i:…)"},
      {"(?i:ss)", "letters that may be one character"},
      {"(?i:[\\p{L}])", "a class of letters in brackets in a group (?i:…)"}};
  for (const auto& [pattern, why] : refused) {
    INFO(pattern);
    CHECK_THROWS_WITH(pieces(pattern, "a"), Contains(why));
  }
  CHECK_THROWS_WITH(pieces(std::string(60, '(') + std::string(60, ')'), "a"), Contains("too many groups in groups"));
  CHECK_THROWS_WITH(pieces(std::string(60, '['), "a"), Contains("too many classes in classes"));
  CHECK_THROWS_WITH(pieces("a" + std::string(60, '*'), "a"), Contains("too many repetitions of repetitions"));
}

TEST_CASE("possessive and lazy repetitions of much take no time", "[tokenizers]") {
  const std::string many(5000, 'a');
  for (const char* const pattern :
       {"(?>a+)b", "a++b", "(?:a*?)*?b", "(?:(?>a|b)+)+c", "(?:a|aa)++b", "(?:(?:){1000}){1000}b"})
    CHECK(pieces(pattern, std::string(300, 'a')) == std::string(300, 'a'));
  CHECK(pieces("\\w++$", many) == many);
}

}  // namespace fit::test::tokenizer_parts_test
