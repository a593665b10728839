#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/affixes.hpp"
#include "fit/nn/data/readers.hpp"
#include "fit/nn/tokenizers/tokenizers.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"
#include "tokenizers/tokens.hpp"
#include "unicode/normal_forms.hpp"

namespace fit::text {
namespace {

constexpr const char* word_pieces_op = "WordPieces";
constexpr std::size_t longest_word = 100;  // characters

std::string utf8_of(const std::u32string& word, std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t i = begin; i < end; ++i) unicode::append(text, word[i]);
  return text;
}

// BERT's normalisation: lower case without accents and control characters, a space for white space, spaces around an
// ideograph.
unicode::Points normalized(const std::string& text) {
  unicode::Points clean, all;
  for (const char32_t c : unicode::points_of(word_pieces_op, text)) {
    if (unicode::is_control(c)) continue;
    if (unicode::is_chinese(c))
      clean.insert(clean.end(), {U' ', c, U' '});
    else
      clean.push_back(unicode::is_space(c) ? U' ' : c);
  }
  for (const unicode::Change& change : unicode::decomposed(clean)) {
    if (unicode::is_nonspacing(change.c)) continue;
    const unicode::Points lower = unicode::lower_case_of(change.c);
    all.insert(all.end(), lower.begin(), lower.end());
  }
  return all;
}

}  // namespace

struct WordPieces::Ids : std::unordered_map<std::string, std::int64_t> {};

WordPieces::WordPieces(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
  const auto ids = std::make_shared<Ids>();
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].empty()) check::fail(word_pieces_op, "piece ", i, " is empty");
    if (!ids->emplace(pieces_[i], static_cast<std::int64_t>(i)).second)
      check::fail(word_pieces_op, "the piece '", pieces_[i], "' is there twice");
  }
  ids_ = ids;
  pad_ = id("[PAD]"), unknown_ = id("[UNK]"), begin_ = id("[CLS]"), end_ = id("[SEP]");
  mask_ = ids_->count("[MASK]") ? id("[MASK]") : -1;
}

WordPieces WordPieces::load(const std::string& path) {
  try {
    return WordPieces(data::read_lines(path));
  } catch (const Error& e) {
    throw FileError(std::string("[WordPieces] ") + path + ": " + e.what());
  }
}

std::int64_t WordPieces::id(const std::string& piece) const {
  check_not_moved(word_pieces_op, ids_);
  const auto found = ids_->find(piece);
  if (found == ids_->end()) check::fail(word_pieces_op, "there is no piece '", piece, "' among the ", pieces_.size());
  return found->second;
}

const std::string& WordPieces::token(std::int64_t id) const { return checked_token(word_pieces_op, pieces_, id); }

void WordPieces::add_word(std::vector<std::int64_t>& ids, const std::u32string& word) const {
  const std::size_t before = ids.size();
  for (std::size_t begin = 0; begin < word.size();) {
    std::size_t end = word.size() > longest_word ? begin : word.size();
    for (; end > begin; --end) {
      const auto found = ids_->find((begin > 0 ? "##" : "") + utf8_of(word, begin, end));
      if (found == ids_->end()) continue;
      ids.push_back(found->second);
      break;
    }
    if (end == begin) {  // no piece fits
      ids.resize(before);
      ids.push_back(unknown_);
      return;
    }
    begin = end;
  }
}

void WordPieces::add_words(std::vector<std::int64_t>& ids, const std::string& text) const {
  std::u32string word;
  const auto finish = [&] {
    if (!word.empty()) add_word(ids, word);
    word.clear();
  };
  for (const char32_t c : normalized(text)) {
    const bool alone = unicode::is_punctuation(c);
    if (c == U' ' || alone) finish();
    if (c != U' ') word += c;
    if (alone) finish();
  }
  finish();
}

std::vector<std::int64_t> WordPieces::ids_of(const std::string& text, std::int64_t max_length) const {
  check_not_moved(word_pieces_op, ids_);
  if (max_length < 0 || max_length == 1)
    check::fail(word_pieces_op, "max_length is ", max_length,
                ": it must be 0 (all) or at least 2, for [CLS] and [SEP]");
  std::vector<std::int64_t> ids{begin_};
  // The name of a special token in a text is that token, as in the reference.
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = text.size();
    const std::string* special = nullptr;
    for (const std::int64_t token : {pad_, unknown_, begin_, end_, mask_}) {
      if (token < 0) continue;
      const std::string& name = pieces_[token];
      if (const std::size_t found = text.find(name, at); found < next) next = found, special = &name;
    }
    add_words(ids, text.substr(at, next - at));
    if (special) ids.push_back(ids_->at(*special));
    at = next + (special ? special->size() : 0);
  }
  if (max_length > 0) ids.resize(std::min(ids.size(), static_cast<std::size_t>(max_length - 1)));
  ids.push_back(end_);
  return ids;
}

Tensor WordPieces::encode(const std::string& text, std::int64_t max_length) const {
  return ids_tensor(ids_of(text, max_length));
}

Batch WordPieces::encode(const std::vector<std::string>& texts, std::int64_t max_length) const {
  if (texts.empty()) check::fail(word_pieces_op, "there are no texts: give at least one");
  std::vector<std::vector<std::int64_t>> rows;
  std::size_t longest = 0;
  for (const std::string& text : texts) {
    rows.push_back(ids_of(text, max_length));
    longest = std::max(longest, rows.back().size());
  }
  const auto T = static_cast<std::int64_t>(longest);
  std::vector<std::int64_t> ids, lengths;
  for (auto& row : rows) {
    lengths.push_back(static_cast<std::int64_t>(row.size()));
    row.resize(longest, pad_);
    ids.insert(ids.end(), row.begin(), row.end());
  }
  const auto B = static_cast<std::int64_t>(texts.size());
  return {tensor(ids, {B, T}), arange(T).reshape({1, 1, T}) < tensor(lengths, {B, 1, 1})};
}

std::string WordPieces::decode(const Tensor& ids) const {
  check::dtype(word_pieces_op, "ids", ids, DType::int64);
  std::string text;
  for (const std::int64_t id : ids.to_vector<std::int64_t>()) {
    const std::string& piece = token(id);
    if (id == pad_ || id == begin_ || id == end_) continue;
    const bool within = starts_with(piece, "##");
    if (!within && !text.empty()) text += ' ';
    text += within ? piece.substr(2) : piece;
  }
  return text;
}

}  // namespace fit::text
