#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "common/utf8.hpp"
#include "fit/nn/tokenizers/text.hpp"
#include "io/atomic_file.hpp"
#include "io/json.hpp"
#include "tensor/check.hpp"
#include "tokenizers/learn_pairs.hpp"
#include "tokenizers/pair_ranks.hpp"
#include "tokenizers/tokens.hpp"

namespace fit::text {
namespace {

template <class F>
void each_character(const std::string& text, const F& f) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = utf8::sequence_length(text, at);
    if (n == 0) check::fail("CharVocabulary", "the text is not UTF-8 at byte ", at);
    f(text.substr(at, n), at);
    at += n;
  }
}

// ---- files: {"format": …, "version": 1, KEY: [...]} ---------------------------------------------------------------

void save_list(const char* op, const std::string& path, const char* format, const char* key, const io::Json& list) {
  io::Json json;
  json["format"] = format;
  json["version"] = 1;
  json[key] = list;
  io::write_file(op, path, json.dump(1) + '\n');
}

// Reads the list of a file and passes it to `make`. An Error of `make` becomes a FileError.
template <class Make>
auto load_list(const char* op, const std::string& path, const char* format, const char* key, const Make& make) {
  io::InputFile file(op, path);
  const io::Json json = io::parse_json(file, file.rest(), {3, 2});
  if (!json.is_object() || json.size() != 3 || !json.contains("format") || !json.contains("version") ||
      !json.contains(key))
    file.fail("expected an object of exactly format, version and ", key);
  if (json["format"] != format) file.fail("format is ", json["format"].dump(), ": expected \"", format, "\"");
  if (json["version"] != 1) file.fail("version is ", json["version"].dump(), ": expected 1");
  if (!json[key].is_array()) file.fail(key, " is ", json[key].type_name(), ": expected a list");
  try {
    return make(file, json[key]);
  } catch (const FileError&) {
    throw;
  } catch (const Error& e) {
    file.fail(e.what());
  }
}

constexpr const char *char_format = "fit characters", *pair_format = "fit byte pairs";

}  // namespace

std::string Vocabulary::decode(const Tensor& ids) const {
  check::dtype("decode", "ids", ids, DType::int64);
  return decode(ids.to_vector<std::int64_t>());
}

std::string Vocabulary::decode(const std::vector<std::int64_t>& ids) const {
  std::string text;
  for (const std::int64_t id : ids) text += token(id);
  return text;
}

namespace {

// How many of the last bytes begin a character that is not complete.
std::size_t incomplete(const std::string& text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, text.size()); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if ((byte & 0xC0) == 0x80) continue;  // within a character
    const std::size_t size = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return size > n ? n : 0;
  }
  return 0;
}

}  // namespace

std::string Stream::add(std::int64_t id) {
  std::string text = waiting_ + vocabulary_->token(id);
  const std::size_t whole = text.size() - incomplete(text);
  waiting_ = text.substr(whole);
  text.resize(whole);
  return text;
}

// ---- CharVocabulary -----------------------------------------------------------------------------------------------

struct CharVocabulary::Ids : std::unordered_map<std::string, std::int64_t> {};

CharVocabulary::CharVocabulary(const std::string& text) {
  if (text.empty()) check::fail("CharVocabulary", "the text is empty: there is no character to number");
  std::set<std::string> all;  // UTF-8 strings sort by code point
  each_character(text, [&](const std::string& c, std::size_t) { all.insert(c); });
  tokens_.assign(all.begin(), all.end());
  const auto ids = std::make_shared<Ids>();
  for (std::size_t i = 0; i < tokens_.size(); ++i) (*ids)[tokens_[i]] = static_cast<std::int64_t>(i);
  ids_ = ids;
}

Tensor CharVocabulary::encode(const std::string& text) const {
  check_not_moved("CharVocabulary", ids_);
  std::vector<std::int64_t> ids;
  each_character(text, [&](const std::string& c, std::size_t at) {
    const auto found = ids_->find(c);
    if (found == ids_->end())
      check::fail("CharVocabulary", "'", c, "' at byte ", at, " is not one of the ", size(), " characters known");
    ids.push_back(found->second);
  });
  return ids_tensor(ids);
}

const std::string& CharVocabulary::token(std::int64_t id) const { return checked_token("CharVocabulary", tokens_, id); }

void CharVocabulary::save(const std::string& path) const {
  save_list("CharVocabulary", path, char_format, "characters", tokens_);
}

CharVocabulary CharVocabulary::load(const std::string& path) {
  return load_list("CharVocabulary", path, char_format, "characters",
                   [](const io::InputFile& file, const io::Json& list) {
                     std::string text;
                     for (const auto& c : list) {
                       if (!c.is_string()) file.fail("a character is ", c.type_name(), ": expected a string");
                       text += c.text();
                     }
                     CharVocabulary v(text);
                     // Single characters, sorted, without duplicates.
                     if (list != v.tokens_) file.fail("expected single characters in rising order");
                     return v;
                   });
}

// ---- BytePairVocabulary -------------------------------------------------------------------------------------------

namespace {

enum class Kind { letter, digit, space, other };

Kind kind_of(char c) {
  const auto u = static_cast<unsigned char>(c);
  if ((u | 32) >= 'a' && (u | 32) <= 'z') return Kind::letter;
  if (u >= 0x80) return Kind::letter;  // a byte of a multi-byte character
  if (u >= '0' && u <= '9') return Kind::digit;
  return u == ' ' || (u >= '\t' && u <= '\r') ? Kind::space : Kind::other;
}

// Calls f with each word. A word is a run of letters, digits or other signs with at most one space before it, or a run
// of white space without the space that belongs to the next word.
template <class F>
void each_word(const std::string& text, const F& f) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + (text[at] == ' ' && at + 1 < text.size() && kind_of(text[at + 1]) != Kind::space ? 1 : 0);
    const Kind kind = kind_of(text[end]);
    while (end < text.size() && kind_of(text[end]) == kind) ++end;
    if (kind == Kind::space && end < text.size() && text[end - 1] == ' ') --end;
    f(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace

BytePairVocabulary BytePairVocabulary::train(const std::string& text, std::int64_t size) {
  if (size < 256) check::fail("BytePairVocabulary", "size is ", size, ": the bytes alone are 256 tokens");
  std::map<std::string, std::int64_t> counted;
  each_word(text, [&](const std::string& word) { ++counted[word]; });
  return BytePairVocabulary(learn_pairs(counted, size - 256));
}

struct BytePairVocabulary::Joined : PairRanks {};

BytePairVocabulary::BytePairVocabulary(const Merges& merges) : merges_(merges) {
  const auto joined = std::make_shared<Joined>();
  for (int byte = 0; byte < 256; ++byte) tokens_.emplace_back(1, static_cast<char>(byte));
  for (const auto& [a, b] : merges) {
    if (a < 0 || b < 0 || a >= size() || b >= size())
      check::fail("BytePairVocabulary", "token ", size(), " joins ", a, " and ", b, ": both must come before it");
    if (!joined->add(a, b, size()))
      check::fail("BytePairVocabulary", "token ", size(), " joins ", a, " and ", b, ", as one before it does");
    if (token(a).size() + token(b).size() > longest_token)
      check::fail("BytePairVocabulary", "token ", size(), " is longer than ", longest_token, " bytes");
    tokens_.push_back(token(a) + token(b));
  }
  joined_ = joined;
}

Tensor BytePairVocabulary::encode(const std::string& text) const {
  check_not_moved("BytePairVocabulary", joined_);
  std::unordered_map<std::string, Ids> known;
  Ids all;
  each_word(text, [&](const std::string& word) {
    const auto [at, first] = known.try_emplace(word);
    if (first) {
      std::vector<Symbol> symbols;
      for (const std::int64_t byte : bytes_of(word)) symbols.push_back({byte, 1});
      joined_->merge(symbols);
      for (const Symbol& symbol : symbols) at->second.push_back(symbol.id);
    }
    all.insert(all.end(), at->second.begin(), at->second.end());
  });
  return ids_tensor(all);
}

const std::string& BytePairVocabulary::token(std::int64_t id) const {
  return checked_token("BytePairVocabulary", tokens_, id);
}

void BytePairVocabulary::save(const std::string& path) const {
  save_list("BytePairVocabulary", path, pair_format, "merges", merges_);
}

BytePairVocabulary BytePairVocabulary::load(const std::string& path) {
  return load_list(
      "BytePairVocabulary", path, pair_format, "merges", [](const io::InputFile& file, const io::Json& list) {
        Merges merges;
        const auto is_token = [](const io::Json& id) { return id.is_natural() && id.natural() <= INT32_MAX; };
        for (const auto& pair : list) {
          if (!pair.is_array() || pair.size() != 2 || !is_token(pair[0]) || !is_token(pair[1]))
            file.fail("merge ", merges.size(), " is ", io::shown(pair.dump()), ": expected two tokens");
          merges.emplace_back(pair[0].integer(), pair[1].integer());
        }
        return BytePairVocabulary(merges);
      });
}

// ---- TextWindows --------------------------------------------------------------------------------------------------

TextWindows::TextWindows(Tensor ids, std::int64_t length, std::int64_t stride)
    : ids_(std::move(ids)), length_(length), stride_(stride) {
  check::dtype("TextWindows", "ids", ids_, DType::int64);
  if (ids_.rank() != 1) check::fail("TextWindows", "ids has shape ", ids_.shape(), ": it must have one axis");
  if (length < 1 || stride < 1)
    check::fail("TextWindows", "length is ", length, ", stride ", stride, ": both must be at least 1");
  if (ids_.numel() <= length)
    check::fail("TextWindows", "the text has ", ids_.numel(), " tokens: a window of ", length,
                " and its targets need one more than that");
}

data::Example TextWindows::get(std::int64_t i) const {
  if (i < 0 || i >= size()) check::fail("TextWindows", "there is no example ", i, ": there are ", size());
  const std::int64_t at = i * stride_;
  return {ids_[{range(at, at + length_)}], ids_[{range(at + 1, at + length_ + 1)}]};
}

}  // namespace fit::text
