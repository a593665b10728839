#include <memory>
#include <unordered_map>

#include "base/affixes.hpp"
#include "fit/nn/data/readers.hpp"
#include "fit/nn/tokenizers/tokenizers.hpp"
#include "io/json.hpp"
#include "tensor/check.hpp"
#include "tokenizers/tokens.hpp"
#include "unicode/byte_characters.hpp"
#include "unicode/characters.hpp"

namespace fit::text {
namespace {

constexpr const char* op = "GPT2Vocabulary";
constexpr std::size_t most_tokens = 10'000'000;
const std::string whole_token = "<|endoftext|>";

enum class Kind { letter, number, space, other };

Kind kind_of(char32_t c) {
  return unicode::is_letter(c)   ? Kind::letter
         : unicode::is_number(c) ? Kind::number
         : unicode::is_space(c)  ? Kind::space
                                 : Kind::other;
}

// The end of the word that begins at `at`, by GPT-2's pattern:
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t end_of_word(const unicode::Points& text, std::size_t at) {
  const auto is = [&](std::size_t i, char32_t c) { return i < text.size() && text[i] == c; };
  if (text[at] == U'\'') {
    for (const char32_t c : {U's', U't', U'm', U'd'})
      if (is(at + 1, c)) return at + 2;
    if ((is(at + 1, U'r') && is(at + 2, U'e')) || (is(at + 1, U'v') && is(at + 2, U'e')) ||
        (is(at + 1, U'l') && is(at + 2, U'l')))
      return at + 3;
  }
  std::size_t end = at;
  if (text[at] == U' ' && at + 1 < text.size() && kind_of(text[at + 1]) != Kind::space) ++end;
  const Kind kind = kind_of(text[end]);
  while (end < text.size() && kind_of(text[end]) == kind) ++end;
  // The last white space before a word belongs to the word.
  if (kind == Kind::space && end < text.size() && end - at > 1) --end;
  return end;
}

// The content of vocab.json.
struct TokenFile {
  std::vector<std::string> tokens;  // as bytes, by id
  std::unordered_map<std::string, std::int64_t> ids;
  std::vector<std::int64_t> bytes;  // the id of each byte
  std::int64_t end_of_text = -1;

  explicit TokenFile(const std::string& path) {
    io::InputFile file(op, path);
    const io::Json json = io::parse_json(file, file.rest(), {1, most_tokens});
    if (!json.is_object()) file.fail("expected an object, from tokens to ids");
    tokens.resize(json.size());
    std::vector<bool> seen(json.size());
    for (const auto& [token, value] : json.items()) {
      if (!value.is_natural() || value.natural() >= json.size() || seen[value.natural()])
        file.fail("the id of '", io::shown(token), "' is ", io::shown(value.dump()), ": expected each of 0 … ",
                  json.size() - 1, " once");
      const auto id = static_cast<std::size_t>(value.natural());
      seen[id] = true;
      tokens[id] = token == whole_token ? token : unicode::bytes_of_token(token);
      if (token == whole_token) end_of_text = static_cast<std::int64_t>(id);
      ids[token] = static_cast<std::int64_t>(id);
    }
    for (int b = 0; b < 256; ++b) {
      const std::string token = unicode::characters_of_bytes({static_cast<char>(b)});
      const auto found = ids.find(token);
      if (found == ids.end()) file.fail("there is no token '", token, "', which is that of a byte");
      bytes.push_back(found->second);
    }
  }
};

}  // namespace

struct GPT2Vocabulary::Ranks : PairRanks {};

GPT2Vocabulary GPT2Vocabulary::load(const std::string& vocab_json, const std::string& merges_txt) {
  TokenFile file(vocab_json);
  GPT2Vocabulary v;
  v.tokens_ = std::move(file.tokens);
  v.bytes_ = std::move(file.bytes);
  v.end_of_text_ = file.end_of_text;
  const auto ranks = std::make_shared<Ranks>();
  std::int64_t number = 0;
  for (const std::string& line : data::read_lines(merges_txt)) {
    ++number;
    if (line.empty() || (number == 1 && starts_with(line, "#version:"))) continue;
    const std::size_t blank = line.find(' ');
    const auto id = [&](const std::string& token) {
      const auto found = file.ids.find(token);
      if (blank == std::string::npos || found == file.ids.end())
        throw FileError(std::string("[") + op + "] " + merges_txt + ", line " + std::to_string(number) + ": '" +
                        io::shown(line) + "' is not a pair of tokens that, joined, is a token of " + vocab_json);
      return found->second;
    };
    const std::string a = line.substr(0, blank), b = blank == std::string::npos ? "" : line.substr(blank + 1);
    const Merge merge{id(a), id(b), id(a + b)};
    if (ranks->add(merge.first, merge.second, merge.joined)) v.merges_.push_back(merge);
  }
  v.ranks_ = ranks;
  return v;
}

const std::string& GPT2Vocabulary::token(std::int64_t id) const { return checked_token(op, tokens_, id); }

void GPT2Vocabulary::add_word(std::vector<std::int64_t>& ids, const std::string& word) const {
  std::vector<std::int64_t> parts;
  for (const char c : word) parts.push_back(bytes_[static_cast<unsigned char>(c)]);
  ranks_->merge(parts);
  ids.insert(ids.end(), parts.begin(), parts.end());
}

void GPT2Vocabulary::add_words(std::vector<std::int64_t>& ids, const std::string& text) const {
  const unicode::Points points = unicode::points_of(op, text);
  for (std::size_t at = 0; at < points.size();) {
    const std::size_t end = end_of_word(points, at);
    std::string word;
    for (; at < end; ++at) unicode::append(word, points[at]);
    add_word(ids, word);
  }
}

Tensor GPT2Vocabulary::encode(const std::string& text) const {
  check_not_moved(op, ranks_);
  std::vector<std::int64_t> ids;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_text_ < 0 ? std::string::npos : text.find(whole_token, at);
    add_words(ids, text.substr(at, end - at));
    if (end == std::string::npos) break;
    ids.push_back(end_of_text_);
    at = end + whole_token.size();
  }
  return ids_tensor(ids);
}

}  // namespace fit::text
