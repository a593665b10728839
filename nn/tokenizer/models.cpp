#include <algorithm>
#include <limits>

#include "base/affixes.hpp"
#include "common/utf8.hpp"
#include "tensor/check.hpp"
#include "tokenizer/parts.hpp"
#include "tokenizers/pair_ranks.hpp"

namespace fit::text {
namespace {

using Value = io::Config::Value;

// Reads an object from tokens to ids, each id once.
std::unordered_map<std::string, std::int64_t> vocabulary_of(const io::Config& part) {
  const Value& object = part.value("vocab");
  if (!object.is_object()) part.fail("vocab", " is ", object.type_name(), ": expected an object");
  std::unordered_map<std::string, std::int64_t> ids;
  std::unordered_map<std::int64_t, const std::string*> seen;
  for (const auto& [token, id] : object.items()) {
    if (!id.is_natural() || id.natural() >= static_cast<std::uint64_t>(largest_id))
      part.fail("vocab", " has the token '", io::shown(token), "' with the id ", io::shown(id.dump()),
                ": expected a whole number below 2^31");
    if (!seen.emplace(id.integer(), &token).second) part.fail("vocab", " has the id ", id.dump(), " twice");
    ids.emplace(token, id.integer());
  }
  return ids;
}

std::string byte_token(unsigned char byte) {
  static const char digits[] = "0123456789ABCDEF";
  return std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + '>';
}

// The ids of the bytes of a text; nothing if one is not in the vocabulary.
Ids byte_ids(const Model& model, const std::string& text) {
  Ids all;
  for (const char b : text) {
    const std::int64_t id = model.id(byte_token(static_cast<unsigned char>(b)));
    if (id < 0) return {};
    all.push_back(id);
  }
  return all;
}

// ---- byte pairs ---------------------------------------------------------------------------------------------------

class BytePairModel final : public Model {
 public:
  explicit BytePairModel(const io::Config& part) {
    ids_ = vocabulary_of(part);
    for (const auto& [token, id] : ids_) contents_.emplace(id, &token);
    if (part.has("dropout") && part.number("dropout") != 0)
      part.fail("dropout", " is ", part.number("dropout"), ": only 0 can be computed here");
    prefix_ = part.text("continuing_subword_prefix", "");
    suffix_ = part.text("end_of_word_suffix", "");
    fuses_unknown_ = part.boolean("fuse_unk", false);
    byte_fallback_ = part.boolean("byte_fallback", false);
    whole_words_ = part.boolean("ignore_merges", false);
    if (part.has("unk_token")) {
      unknown_ = id(part.text("unk_token"));
      if (unknown_ < 0) part.fail("unk_token", " is '", io::shown(part.text("unk_token")), "': it is not in vocab");
    }
    read_merges(part);
  }

  std::vector<Token> tokens_of(const std::string& word) const override {
    if (whole_words_)
      if (const std::int64_t whole = id(word); whole >= 0) return {{whole, word, {0, word.size()}}};
    std::vector<Symbol> symbols = symbols_of(word);
    ranks_.merge(symbols);
    std::vector<Token> tokens;
    std::size_t at = 0;
    for (const Symbol& symbol : symbols) {
      // A byte of a prefix or suffix is none of the word's, which may so end before: it stands for the last one.
      const Span span{std::min(at, word.size() - 1), std::min(at + symbol.bytes, word.size())};
      tokens.push_back({symbol.id, *contents_.at(symbol.id), span});
      at += symbol.bytes;
    }
    return tokens;
  }

 private:
  void read_merges(const io::Config& part) {
    const Value& list = part.value("merges");
    if (!list.is_array()) part.fail("merges", " is ", list.type_name(), ": expected a list");
    for (const Value& merge : list) {
      const auto wrong = [&]() {
        part.fail("merges[" + std::to_string(&merge - list.begin()) + ']', " is ", io::shown(merge.dump()),
                  ": expected two tokens that, joined, are a token");
      };
      std::string a, b;
      if (merge.is_string()) {
        const std::string both = merge.text();
        if (starts_with(both, "#version")) continue;  // the first line of merges.txt
        const std::size_t blank = both.find(' ');
        if (blank == std::string::npos || both.find(' ', blank + 1) != std::string::npos) wrong();
        a = both.substr(0, blank), b = both.substr(blank + 1);
      } else {
        if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) wrong();
        a = merge[0].text(), b = merge[1].text();
      }
      if (!starts_with(b, prefix_)) wrong();
      const std::int64_t first = id(a), second = id(b), joined = id(a + b.substr(prefix_.size()));
      if (first < 0 || second < 0 || joined < 0) wrong();
      ranks_.add(first, second, joined);
    }
  }

  // The characters of a word, in the order of the reference, which adds bytes before an unknown character that is
  // still to be fused.
  std::vector<Symbol> symbols_of(const std::string& word) const {
    std::vector<Symbol> all;
    std::size_t unknown = 0;  // bytes of unknown characters that are not added yet
    const auto add_unknown = [&] {
      if (unknown > 0) all.push_back({unknown_, unknown});
      unknown = 0;
    };
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t begin = at;
      utf8::next(word, at);
      std::string character(word, begin, at - begin);
      if (begin > 0) character.insert(0, prefix_);
      if (at == word.size()) character += suffix_;
      if (const std::int64_t known = id(character); known >= 0) {
        add_unknown();
        all.push_back({known, at - begin});
        continue;
      }
      if (byte_fallback_)
        if (const Ids bytes = byte_ids(*this, character); !bytes.empty()) {
          for (const std::int64_t byte : bytes) all.push_back({byte, 1});
          continue;
        }
      if (unknown_ < 0) continue;
      if (!fuses_unknown_) add_unknown();
      unknown += at - begin;
    }
    add_unknown();
    return all;
  }

  std::unordered_map<std::int64_t, const std::string*> contents_;
  PairRanks ranks_;
  std::string prefix_, suffix_;
  std::int64_t unknown_ = -1;
  bool fuses_unknown_, byte_fallback_, whole_words_;
};

// ---- word pieces --------------------------------------------------------------------------------------------------

class WordPieceModel final : public Model {
 public:
  explicit WordPieceModel(const io::Config& part) {
    ids_ = vocabulary_of(part);
    prefix_ = part.text("continuing_subword_prefix", "##");
    longest_ = part.integer("max_input_chars_per_word", 100);
    unknown_token_ = part.text("unk_token", "[UNK]");
    unknown_ = id(unknown_token_);
    if (unknown_ < 0) part.fail("unk_token", " is '", io::shown(unknown_token_), "': it is not in vocab");
    for (const auto& [token, number] : ids_) most_bytes_ = std::max(most_bytes_, token.size());
  }

  std::vector<Token> tokens_of(const std::string& word) const override {
    const std::vector<Token> unknown = {{unknown_, unknown_token_, {0, word.size()}}};
    if (static_cast<std::int64_t>(characters(word).size()) > longest_) return unknown;
    std::vector<Token> tokens;
    for (std::size_t begin = 0; begin < word.size();) {
      std::size_t end = std::min(word.size(), begin + most_bytes_);
      while (end < word.size() && !utf8::starts_code_point(word[end])) --end;
      const std::size_t before = tokens.size();
      for (; end > begin && tokens.size() == before; --end) {
        if (end < word.size() && !utf8::starts_code_point(word[end])) continue;
        const std::string piece = (begin > 0 ? prefix_ : "") + word.substr(begin, end - begin);
        if (const std::int64_t known = id(piece); known >= 0) tokens.push_back({known, piece, {begin, end}});
      }
      if (tokens.size() == before) return unknown;
      begin = tokens.back().span.second;
    }
    return tokens;
  }

 private:
  std::string prefix_, unknown_token_;
  std::int64_t longest_, unknown_;
  std::size_t most_bytes_ = 0;
};

class WordModel final : public Model {
 public:
  explicit WordModel(const io::Config& part) {
    ids_ = vocabulary_of(part);
    unknown_token_ = part.text("unk_token");
    unknown_ = id(unknown_token_);
  }
  std::vector<Token> tokens_of(const std::string& word) const override {
    const std::int64_t known = id(word);
    if (known >= 0) return {{known, word, {0, word.size()}}};
    if (unknown_ < 0) check::fail("Tokenizer", "the word '", word, "' is not in the vocabulary");
    return {{unknown_, unknown_token_, {0, word.size()}}};
  }

 private:
  std::string unknown_token_;
  std::int64_t unknown_;
};

// ---- unigrams -----------------------------------------------------------------------------------------------------

class UnigramModel final : public Model {
 public:
  explicit UnigramModel(const io::Config& part) {
    const Value& list = part.value("vocab");
    if (!list.is_array()) part.fail("vocab", " is ", list.type_name(), ": expected a list");
    double least = std::numeric_limits<double>::infinity();
    for (const Value& entry : list) {
      const std::string name = "vocab[" + std::to_string(scores_.size()) + ']';
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        part.fail(name, " is ", io::shown(entry.dump()), ": expected a token and its score");
      const auto token = entry[0].text();
      scores_.push_back(entry[1].number());
      ids_[token] = static_cast<std::int64_t>(scores_.size()) - 1;
      contents_.push_back(token);
      most_bytes_ = std::max(most_bytes_, token.size());
      least = std::min(least, scores_.back());
    }
    unknown_score_ = least - 10;
    unknown_ = part.has("unk_id") ? part.integer("unk_id") : -1;
    if (part.has("unk_id") && (unknown_ < 0 || unknown_ >= static_cast<std::int64_t>(scores_.size())))
      part.fail("unk_id", " is ", unknown_, ": the ids are 0 … ", static_cast<std::int64_t>(scores_.size()) - 1);
    byte_fallback_ = part.boolean("byte_fallback", false);
  }

  std::vector<Token> tokens_of(const std::string& word) const override {
    std::vector<Token> tokens;
    for (const Span& span : best(word)) {
      const std::string piece = word.substr(span.first, span.second - span.first);
      if (const std::int64_t known = id(piece); known >= 0) {
        tokens.push_back({known, piece, span});
        continue;
      }
      const Ids bytes = byte_fallback_ ? byte_ids(*this, piece) : Ids();
      for (std::size_t i = 0; i < bytes.size(); ++i)
        tokens.push_back({bytes[i], contents_[static_cast<std::size_t>(bytes[i])], span});
      if (bytes.empty()) tokens.push_back({unknown_, piece, span});  // its content is the text, as in the reference
    }
    return tokens;
  }

 private:
  struct Node {  // the best way to the end of a piece
    double score = 0;
    std::ptrdiff_t begin = -1;
    std::int64_t id = 0;
  };

  // The pieces with the largest sum of scores. Neighbours that are unknown are one piece.
  std::vector<Span> best(const std::string& word) const {
    std::vector<Node> ends(word.size() + 1);
    const auto offer = [&](std::size_t begin, std::size_t end, double score, std::int64_t id) {
      Node& to = ends[end];
      const double sum = ends[begin].score + score;
      if (to.begin < 0 || sum > to.score) to = {sum, static_cast<std::ptrdiff_t>(begin), id};
    };
    for (std::size_t at = 0; at < word.size();) {
      std::size_t next = at;
      utf8::next(word, next);
      bool single = false;
      for (std::size_t end = next; end <= word.size() && end - at <= most_bytes_; ++end) {
        if (end < word.size() && !utf8::starts_code_point(word[end])) continue;
        const std::int64_t known = id(word.substr(at, end - at));
        if (known < 0) continue;
        offer(at, end, scores_[static_cast<std::size_t>(known)], known);
        single = single || end == next;
      }
      if (!single) {
        if (unknown_ < 0) check::fail("Tokenizer", "'", word.substr(at, next - at), "' is unknown, and unk_id is null");
        offer(at, next, unknown_score_, unknown_);
      }
      at = next;
    }
    std::vector<Span> spans;
    bool joins = false;
    for (std::size_t end = word.size(); end > 0;) {
      const auto begin = static_cast<std::size_t>(ends[end].begin);
      const bool unknown = ends[end].id == unknown_;
      if (unknown && joins)
        spans.back().first = begin;
      else
        spans.emplace_back(begin, end);
      joins = unknown;
      end = begin;
    }
    std::reverse(spans.begin(), spans.end());
    return spans;
  }

  std::vector<double> scores_;
  std::vector<std::string> contents_;
  std::int64_t unknown_;
  double unknown_score_;
  std::size_t most_bytes_ = 0;
  bool byte_fallback_;
};

}  // namespace

std::unique_ptr<Model> model_of(const io::Config& outer, const std::string& key) {
  const io::Config part = outer.object(key);
  const std::string type = part.text("type", part.has("merges") ? "BPE" : "WordPiece");
  std::unique_ptr<Model> model;
  if (type == "BPE")
    model = std::make_unique<BytePairModel>(part);
  else if (type == "WordPiece")
    model = std::make_unique<WordPieceModel>(part);
  else if (type == "WordLevel")
    model = std::make_unique<WordModel>(part);
  else if (type == "Unigram")
    model = std::make_unique<UnigramModel>(part);
  else
    fail_unknown(part, type, "BPE, WordPiece, WordLevel, Unigram");
  part.check_all_read();
  return model;
}

}  // namespace fit::text
