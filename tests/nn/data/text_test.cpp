#include "fit/nn/tokenizers/text.hpp"

#include <random>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// Vocabularies and windows of text.
namespace fit::test::text_test {
namespace {

using Catch::Matchers::Contains;
using text::BytePairVocabulary;
using text::CharVocabulary;

std::vector<std::int64_t> ids(const text::Vocabulary& v, const std::string& text) {
  return v.encode(text).to_vector<std::int64_t>();
}

const std::string sentence =
    "The quick brown fox jumps over the lazy dog; the dog, lazy as it is,\n\tdoesn't jump.  Über 300 Füchse   springen";

}  // namespace

TEST_CASE("text: characters in the order of their code points", "[text]") {
  const CharVocabulary v("hello, Größe 日本");
  CHECK(v.size() == 12);
  CHECK(v.token(0) == " ");
  CHECK(v.token(11) == "本");
  CHECK(ids(v, "oh 日") == std::vector<std::int64_t>{6, 4, 0, 10});
  CHECK(v.decode(v.encode("Größe, hello")) == "Größe, hello");
  CHECK(v.decode(std::vector<std::int64_t>{6, 4}) == "oh");
  CHECK(v.encode("").shape() == Shape{0});
  CHECK(v.decode(tensor({{0, 11}, {11, 0}})) == " 本本 ");
  CHECK_THROWS_WITH(v.encode("hex"), Contains("'x' at byte 2 is not one of the 12 characters known"));
  CHECK_THROWS_WITH(v.decode(tensor({12})), Contains("there is no token 12: there are 12"));
  CHECK_THROWS_WITH(v.decode(tensor({-1})), Contains("there is no token -1"));
  CHECK_THROWS_WITH(v.decode(tensor({1.})), Contains("ids is float32: it must be int64"));
  CHECK_THROWS_WITH(CharVocabulary("ab\xFF"), Contains("not UTF-8 at byte 2"));
  CHECK_THROWS_WITH(CharVocabulary("a\xC3"), Contains("not UTF-8 at byte 1"));
  for (const char* bad : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"})  // overlong, a surrogate, beyond the last
    CHECK_THROWS_WITH(CharVocabulary(bad), Contains("not UTF-8 at byte 0"));
}

TEST_CASE("text: byte pairs are learned, the most frequent first", "[text]") {
  // The example of Wikipedia's article on byte pair encoding; among equals the smaller numbers go first.
  const BytePairVocabulary v = BytePairVocabulary::train("aaabdaaabac", 259);
  CHECK(v.merges() == BytePairVocabulary::Merges{{'a', 'a'}, {'a', 'b'}, {256, 257}});
  CHECK(v.token(258) == "aaab");
  CHECK(ids(v, "aaabdaaabac") == std::vector<std::int64_t>{258, 'd', 258, 'a', 'c'});
  CHECK(ids(v, "aaaa") == std::vector<std::int64_t>{256, 256});
  CHECK(BytePairVocabulary::train("aaabdaaabac", 999).size() == 259);  // no pair is left that stands twice
  CHECK(BytePairVocabulary::train("", 300).size() == 256);

  // No token grows without end.
  const BytePairVocabulary runs = BytePairVocabulary::train(std::string(1 << 12, 'a'), 999);
  CHECK(runs.size() == 264);
  CHECK(ids(runs, std::string(512, 'a')) == std::vector<std::int64_t>{263, 263});

  // Pairs are counted and joined within words, which take one blank along.
  const BytePairVocabulary words = BytePairVocabulary::train("low lower low 10 10 low,", 1000);
  for (std::int64_t id = 256; id < words.size(); ++id) {
    CHECK(words.token(id).find(' ', 1) == std::string::npos);
    CHECK(words.token(id).find(',') == std::string::npos);
  }
  CHECK(ids(words, " low") == std::vector<std::int64_t>{ids(words, "low low").back()});
  CHECK_THROWS_WITH(BytePairVocabulary::train("a", 255), Contains("size is 255"));
}

TEST_CASE("text: byte pairs lie within words, which begin with one blank of those before them", "[text]") {
  using Merges = BytePairVocabulary::Merges;
  const auto learned = [](const std::string& text) { return BytePairVocabulary::train(text, 999).merges(); };
  CHECK(learned("a  b  b  b") == Merges{{' ', 'b'}});
  CHECK(learned("a  bc  bc") == Merges{{' ', 'b'}, {256, 'c'}});
  CHECK(learned("a   ") == Merges{{' ', ' '}});  // blanks at the end belong together
  CHECK(learned("a\n\nb") == Merges{});
  CHECK(BytePairVocabulary::train("aaaa", 256).merges().empty());
  // What is joined at the end of a word is joined once.
  CHECK(ids(BytePairVocabulary({{'x', 'x'}, {256, 'x'}}), "xxxyxx") == std::vector<std::int64_t>{257, 'y', 256});
  // The byte 0 is a token as others are.
  CHECK(BytePairVocabulary({{0, 1}, {1, 0}}).token(257) == std::string("\1\0", 2));
}

TEST_CASE("text: every text comes back from byte pairs", "[text]") {
  const BytePairVocabulary v = BytePairVocabulary::train(sentence + sentence, 310);
  CHECK(v.size() == 310);
  CHECK(v.encode(sentence).numel() < static_cast<std::int64_t>(sentence.size()) / 2);
  CHECK(v.decode(v.encode(sentence)) == sentence);
  std::mt19937 random(1);
  for (const std::size_t n : {0, 1, 2, 7, 300}) {
    std::string bytes;
    for (std::size_t i = 0; i < n; ++i) bytes += static_cast<char>(random() % 3 == 0 ? ' ' : random() % 256);
    CHECK(v.decode(v.encode(bytes)) == bytes);
  }
  CHECK_THROWS_WITH(BytePairVocabulary({{256, 1}}), Contains("token 256 joins 256 and 1: both must come before it"));
  CHECK_THROWS_WITH(BytePairVocabulary({{-1, 1}}), Contains("both must come before"));
  CHECK_THROWS_WITH(BytePairVocabulary({{1, 2}, {1, 2}}), Contains("token 257 joins 1 and 2, as one before it does"));
  BytePairVocabulary::Merges doubling = {{'a', 'a'}};
  for (std::int64_t id = 256; id < 300; ++id) doubling.emplace_back(id, id);
  CHECK_THROWS_WITH(BytePairVocabulary(doubling), Contains("is longer than 256 bytes"));
}

TEST_CASE("text: vocabularies are saved and loaded", "[text]") {
  const Directory d;
  const CharVocabulary letters(sentence);
  letters.save(d.file("letters"));
  const CharVocabulary same = CharVocabulary::load(d.file("letters"));
  CHECK(same.size() == letters.size());
  CHECK(ids(same, sentence) == ids(letters, sentence));
  const BytePairVocabulary pairs = BytePairVocabulary::train(sentence, 280);
  pairs.save(d.file("pairs"));
  CHECK(BytePairVocabulary::load(d.file("pairs")).merges() == pairs.merges());

  const auto refused = [&](const std::string& file, const std::string& why) {
    INFO(file);
    put(d.file("bad"), file);
    const bool of_pairs = file.find("pairs") != std::string::npos;
    const auto load = [&] {
      of_pairs ? (void)BytePairVocabulary::load(d.file("bad")) : (void)CharVocabulary::load(d.file("bad"));
    };
    CHECK_THROWS_AS(load(), FileError);
    CHECK_THROWS_WITH(load(), Contains(d.file("bad")) && Contains(why));
  };
  const std::string begin = R"({"format":"fit byte pairs","version":1,"merges":)";
  refused("", "expected valid JSON");
  refused(begin + "[[97,98]]", "expected valid JSON");
  refused(R"({"format":"fit byte pairs","version":1})", "exactly format, version and merges");
  refused(R"({"format":"fit byte pairs","version":2,"merges":[]})", "version is 2: expected 1");
  refused(R"({"format":"pairs","version":1,"merges":[]})", "format is \"pairs\": expected \"fit byte pairs\"");
  refused(begin + "7}", "merges is number");
  refused(begin + "[[97]]}", "merge 0 is [97]: expected two tokens");
  refused(begin + "[[97,-1]]}", "merge 0 is [97,-1]");
  refused(begin + "[[97,98.5]]}", "expected two tokens");
  refused(begin + "[[97,256]]}", "both must come before it");
  refused(begin + "[[97,18446744073709551615]]}", "expected two tokens");
  refused(begin + "[[97,98,99]]}", "has more than 2 values");
  // A few bytes of the file must not make a long token each.
  std::string doubled = "[97,97]";
  for (int t = 256; t < 264; ++t) doubled += ",[" + std::to_string(t) + ',' + std::to_string(t) + ']';
  refused(begin + "[" + doubled + "]}", "token 264 is longer than 256 bytes");
  refused(R"({"format":"fit characters","version":1,"characters":["b","a"]})", "single characters in rising order");
  refused(R"({"format":"fit characters","version":1,"characters":["ab"]})", "single characters");
  refused(R"({"format":"fit characters","version":1,"characters":[1]})", "a character is number");
  CHECK_THROWS_WITH(CharVocabulary::load(d.file("pairs")), Contains("exactly format, version and characters"));
  CHECK_THROWS_WITH(CharVocabulary::load(d.file("none")), Contains("there is no such file"));
}

TEST_CASE("text: windows of a long text", "[text]") {
  const text::TextWindows all(arange(6), 3);
  CHECK(all.size() == 3);
  CHECK(same_bits(all.get(0)[0], tensor({0, 1, 2})));
  CHECK(same_bits(all.get(0)[1], tensor({1, 2, 3})));
  CHECK(same_bits(all.get(2)[0], tensor({2, 3, 4})));
  CHECK(same_bits(all.get(2)[1], tensor({3, 4, 5})));
  const text::TextWindows apart(arange(10), 3, 3);
  CHECK(apart.size() == 3);
  CHECK(same_bits(apart.get(0)[0], tensor({0, 1, 2})));
  CHECK(same_bits(apart.get(2)[1], tensor({7, 8, 9})));
  CHECK(text::TextWindows(arange(9), 3, 3).size() == 2);
  CHECK(same_bits(text::TextWindows(arange(3), 1, 1).get(1)[1], tensor({2})));
  CHECK_THROWS_WITH(all.get(3), Contains("there is no example 3: there are 3"));
  CHECK_THROWS_WITH(text::TextWindows(arange(3), 3),
                    Contains("has 3 tokens: a window of 3 and its targets need one more"));
  CHECK_THROWS_WITH(text::TextWindows(arange(3), INT64_MAX), Contains("need one more"));
  CHECK_THROWS_WITH(text::TextWindows(arange(3), 0), Contains("length is 0"));
  CHECK_THROWS_WITH(text::TextWindows(zeros({3}), 1), Contains("must be int64"));
}

}  // namespace fit::test::text_test
