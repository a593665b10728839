#include "fit/nn/tokenizers/tokenizers.hpp"

#include "fit/io/npz.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// The tokenizers of pretrained models against Hugging Face's, on 1000 strings (tests/golden/tokens.py).
namespace fit::test::tokenizers_test {
namespace {

using Catch::Matchers::Contains;
using Ids = std::vector<std::int64_t>;

// A string as it may stand in a message.
std::string shown(const std::string& text) {
  std::string s;
  for (const char c : text.substr(0, 300)) {
    const auto u = static_cast<unsigned char>(c);
    if (u > ' ' && u < 0x7F)
      s += c;
    else
      s += "\\" + std::to_string(u) + ".";
  }
  return s;
}

class Strings {
 public:
  Strings() : arrays_(load_npz(FIT_GOLDEN_DIR "/tokens/tokens.npz")) {}
  std::vector<std::string> texts() const {
    std::vector<std::string> all;
    for (const Ids& row : rows("text")) all.emplace_back(row.begin(), row.end());
    return all;
  }
  std::vector<Ids> rows(const std::string& name) const {
    const Ids numbers = at(arrays_, name).to_vector<std::int64_t>();
    std::vector<Ids> all;
    std::int64_t begin = 0;
    for (const std::int64_t end : at(arrays_, name + "_ends").to_vector<std::int64_t>()) {
      all.emplace_back(numbers.begin() + begin, numbers.begin() + end);
      begin = end;
    }
    return all;
  }

 private:
  StateDict arrays_;
};

template <class Encode>
void check_ids(const std::string& name, const Encode& encode) {
  const Strings strings;
  const std::vector<std::string> texts = strings.texts();
  const std::vector<Ids> expected = strings.rows(name);
  REQUIRE(texts.size() == 1000);
  int wrong = 0;
  for (std::size_t i = 0; i < texts.size() && wrong < 10; ++i) {
    INFO(name << ", string " << i << ": " << shown(texts[i]));
    const Ids ids = encode(texts[i]).template to_vector<std::int64_t>();
    CHECK(ids == expected[i]);
    wrong += ids != expected[i];
  }
}

text::WordPieces small_pieces() { return text::WordPieces::load(FIT_GOLDEN_DIR "/tokens/vocab.txt"); }
text::GPT2Vocabulary small_gpt2() {
  return text::GPT2Vocabulary::load(FIT_GOLDEN_DIR "/tokens/vocab.json", FIT_GOLDEN_DIR "/tokens/merges.txt");
}

}  // namespace

TEST_CASE("word pieces are those of the reference", "[golden][tokenizers]") {
  const text::WordPieces pieces = small_pieces();
  check_ids("pieces", [&](const std::string& text) { return pieces.encode(text, 256); });
}

TEST_CASE("word pieces with the vocabulary of all-MiniLM-L6-v2 are those of the reference", "[golden][tokenizers]") {
  const std::string path = FIT_MINILM_DIR "/vocab.txt";
  if (!std::filesystem::exists(path)) {
    WARN("skipped: " << path << " is not there; examples/run sentence_similarity downloads it");
    return;
  }
  const text::WordPieces pieces = text::WordPieces::load(path);
  CHECK(pieces.size() == 30522);
  check_ids("minilm", [&](const std::string& text) { return pieces.encode(text, 256); });
}

TEST_CASE("GPT-2's tokens are those of the reference, and decode to the text", "[golden][tokenizers]") {
  const text::GPT2Vocabulary vocabulary = small_gpt2();
  check_ids("gpt2", [&](const std::string& text) { return vocabulary.encode(text); });
  for (const std::string& text : Strings().texts()) {
    INFO(shown(text));
    CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  }
  // The first and the last characters of two, three and four bytes.
  for (const char* text : {"\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80"})
    CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  CHECK(vocabulary.token(0) == "<|endoftext|>");
  CHECK_THROWS_WITH(vocabulary.token(5000), Contains("there is no token 5000"));
  CHECK_THROWS_WITH(vocabulary.encode("ab\xFF"), Contains("the text is not UTF-8 at byte 2"));
}

TEST_CASE("word pieces in batches, truncated, and back", "[tokenizers]") {
  const text::WordPieces pieces({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", ".", "ca"});
  const auto ids = [](const Tensor& x) { return x.to_vector<std::int64_t>(); };
  CHECK(ids(pieces.encode("The CÁTS. Dog")) == Ids{2, 4, 5, 6, 7, 1, 3});
  CHECK(ids(pieces.encode("")) == Ids{2, 3});
  CHECK(ids(pieces.encode("the cats", 4)) == Ids{2, 4, 5, 3});
  CHECK(ids(pieces.encode("the cats", 2)) == Ids{2, 3});
  const text::Batch batch = pieces.encode(std::vector<std::string>{"the cats", "", "cat"});
  CHECK(equal(batch.ids, tensor({{2, 4, 5, 6, 3}, {2, 3, 0, 0, 0}, {2, 5, 3, 0, 0}})));
  CHECK(equal(batch.mask.to(int64), tensor({{{1, 1, 1, 1, 1}}, {{1, 1, 0, 0, 0}}, {{1, 1, 1, 0, 0}}})));
  CHECK(pieces.decode(batch.ids[0]) == "the cats");
  CHECK(pieces.decode(batch.ids[{0, range(3, 5)}]) == "##s");  // the word's beginning is not there
  CHECK(pieces.decode(pieces.encode("the dog")) == "the [UNK]");
  CHECK(pieces.id("cat") == 5);
  CHECK(pieces.token(0) == "[PAD]");
  // The last of the characters that stand for another, and the one behind the last Korean syllable.
  const text::WordPieces others({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\xF0\xAA\x98\x80", "\xED\x9E\xA4"});
  CHECK(ids(others.encode("\xF0\xAF\xA8\x9D")) == Ids{2, 4, 3});
  CHECK(ids(others.encode("\xED\x9E\xA4")) == Ids{2, 5, 3});

  const text::WordPieces masked({"[MASK]", "[SEP]", "[CLS]", "[UNK]", "[PAD]", "the", "##[", "["});
  CHECK(ids(masked.encode("the[MASK]THE [mask][PAD")) == Ids{2, 5, 0, 5, 7, 3, 3, 7, 3, 1});
  CHECK(masked.decode(masked.encode("the[MASK]")) == "the [MASK]");
  CHECK(equal(masked.encode(std::vector<std::string>{"", "the"}).ids, tensor({{2, 1, 4}, {2, 5, 1}})));

  CHECK_THROWS_WITH(pieces.encode("a", 1), Contains("max_length is 1"));
  CHECK_THROWS_WITH(pieces.encode(std::vector<std::string>{}), Contains("there are no texts"));
  CHECK_THROWS_WITH(pieces.encode("\xC3"), Contains("not UTF-8 at byte 0"));
  CHECK_THROWS_WITH(pieces.id("dog"), Contains("there is no piece 'dog'"));
  CHECK_THROWS_WITH(pieces.token(-1), Contains("there is no token -1"));
  CHECK_THROWS_WITH(text::WordPieces({"a", "a"}), Contains("'a' is there twice"));
  const Directory d;
  CHECK_THROWS_AS(text::WordPieces::load(put(d.file("x"), "[PAD]\n[UNK]\n[CLS]\n")), FileError);
  CHECK_THROWS_WITH(text::WordPieces::load(d.file("x")), Contains("/x: [WordPieces] there is no piece '[SEP]'"));
}

TEST_CASE("GPT-2's words: what follows an apostrophe, and white space at the end", "[tokenizers]") {
  const Directory d;
  const std::string known = get(FIT_GOLDEN_DIR "/tokens/vocab.json");
  std::string json = known.substr(0, known.rfind('}')), merges;
  std::int64_t next = small_gpt2().size();
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{{"'", "r"},
                                                                             {"'r", "e"},
                                                                             {"'", "v"},
                                                                             {"'v", "e"},
                                                                             {"'", "l"},
                                                                             {"'l", "l"},
                                                                             {"Ġ", "Ġ"},
                                                                             {"Ċ", "b"},
                                                                             {"x", "x"},
                                                                             {"xx", "x"}}) {
    if (known.find('"' + a + b + '"') == std::string::npos) json += ", \"" + a + b + "\": " + std::to_string(next++);
    merges += a + ' ' + b + '\n';
  }
  const auto v = text::GPT2Vocabulary::load(put(d.file("v"), json + "}"), put(d.file("m"), merges));
  const auto ids = [&](const std::string& text) { return v.encode(text).to_vector<std::int64_t>(); };
  const auto one = [&](const std::string& token) {
    std::int64_t id = 0;
    while (v.token(id) != token) ++id;
    return id;
  };
  for (const char* ending : {"'re", "'ve", "'ll"}) {
    CHECK(ids(ending) == Ids{one(ending)});
    CHECK(ids(std::string("x") + ending) == Ids{one("x"), one(ending)});
  }
  CHECK(ids("'ra") == Ids{one("'"), one("r"), one("a")});  // two words: pairs don't cross
  CHECK(ids("'vr") == Ids{one("'"), one("v"), one("r")});
  CHECK(ids("xxxyxx") == Ids{one("xxx"), one("y"), one("xx")});
  CHECK(ids("x  ") == Ids{one("x"), one("  ")});
  CHECK(ids("x  y") == Ids{one("x"), one(" "), one(" "), one("y")});
  CHECK(ids("x\nb") == Ids{one("x"), one("\n"), one("b")});
}

TEST_CASE("GPT-2's files: what does not fit is refused", "[tokenizers]") {
  const Directory d;
  const std::string good = get(FIT_GOLDEN_DIR "/tokens/vocab.json"), merges = FIT_GOLDEN_DIR "/tokens/merges.txt";
  const auto refused = [&](const std::string& json, const std::string& list, const std::string& message) {
    const std::string v = put(d.file("vocab.json"), json), m = put(d.file("merges.txt"), list);
    CHECK_THROWS_AS(text::GPT2Vocabulary::load(v, m), FileError);
    CHECK_THROWS_WITH(text::GPT2Vocabulary::load(v, m), Contains(message));
  };
  refused("[1]", "", "expected an object");
  refused(R"({"a": 1})", "", "the id of 'a' is 1: expected each of 0 … 0 once");
  refused(R"({"a": 0, "b": 0})", "", "is 0: expected each of 0 … 1 once");
  refused(R"({"a": 0})", "", "there is no token 'Ā', which is that of a byte");
  refused(good, "#version: 0.2\nt\n", "line 2: 't' is not a pair of tokens");
  refused(good, "q q\n", "line 1: 'q q' is not a pair of tokens");
  const auto with = [&](const std::string& list) {
    return text::GPT2Vocabulary::load(put(d.file("v"), good), put(d.file("m"), list));
  };
  CHECK(with("").encode("the").numel() == 3);
  // Of two merges of one pair the last counts.
  const auto ids = [](const Tensor& x) { return x.to_vector<std::int64_t>(); };
  const text::GPT2Vocabulary once = with("t h\nh e\n"), again = with("#version: 0.2\nt h\nh e\nt h\n");
  CHECK(once.token(ids(once.encode("the"))[0]) == "th");
  CHECK(again.token(ids(again.encode("the"))[1]) == "he");
  REQUIRE(again.merges().size() == 2);
  CHECK(again.token(again.merges()[1].joined) == "th");
}

TEST_CASE("tokenizers: a vocabulary that was moved from says so", "[text]") {
  const auto check_moved = [](auto vocabulary) {
    const auto taken = std::move(vocabulary);
    CHECK(taken.encode("the").numel() > 0);
    CHECK_THROWS_WITH(vocabulary.encode("the"), Catch::Matchers::Contains("this vocabulary was moved from"));
  };
  check_moved(text::CharVocabulary("the"));
  check_moved(text::BytePairVocabulary::train("the", 256));
  check_moved(small_gpt2());
  check_moved(small_pieces());
}

}  // namespace fit::test::tokenizers_test
