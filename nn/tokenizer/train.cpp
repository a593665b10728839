#include <set>

#include "fit/nn/tokenizer/tokenizer.hpp"
#include "tensor/check.hpp"
#include "tokenizer/parts.hpp"
#include "tokenizer/regex.hpp"
#include "tokenizers/learn_pairs.hpp"
#include "unicode/byte_characters.hpp"
#include "unicode/characters.hpp"

namespace fit::text {

const char* const gpt4_pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+";

namespace {

constexpr const char* train_op = "Tokenizer::train";
using io::Json;

// The words of a text between its special tokens, and how often each occurs.
std::map<std::string, std::int64_t> counted_words(const std::string& text, const TokenizerOptions& o) {
  std::map<std::string, std::int64_t> counted;
  const Regex regex(o.pattern());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.size(), next = end;
    for (const std::string& special : o.special_tokens())
      if (const std::size_t found = text.find(special, at); found < end) end = found, next = found + special.size();
    const std::string part = text.substr(at, end - at);
    for (const Piece& piece : regex.pieces(part)) ++counted[part.substr(piece.begin, piece.end - piece.begin)];
    at = next;
  }
  return counted;
}

Json special_json(const std::string& content, std::size_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// The object "model": the special tokens, the bytes, and what joins two.
Json model_json(const TokenizerOptions& o, const std::vector<Pair>& pairs) {
  Json vocab = Json::object(), merges = Json::array();
  std::set<std::string> known;
  const auto add_name = [&](const std::string& name) {  // two pairs can make one token
    if (known.insert(name).second) vocab.items().push_back({name, vocab.size()});
  };
  for (const std::string& special : o.special_tokens()) add_name(special);
  std::vector<std::string> tokens;
  const auto add = [&](const std::string& bytes) {
    tokens.push_back(bytes);
    add_name(unicode::characters_of_bytes(bytes));
  };
  for (int b = 0; b < 256; ++b) add(std::string(1, static_cast<char>(b)));
  for (const auto& [a, b] : pairs) {
    const std::string first = tokens[static_cast<std::size_t>(a)], second = tokens[static_cast<std::size_t>(b)];
    merges.push_back(unicode::characters_of_bytes(first) + ' ' + unicode::characters_of_bytes(second));
    add(first + second);
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", vocab},
          {"merges", merges}};
}

Json byte_level_json() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
}

}  // namespace

Tokenizer Tokenizer::train(const std::string& text, const TokenizerOptions& o) {
  unicode::check_utf8(train_op, text);
  const auto specials = static_cast<std::int64_t>(o.special_tokens().size());
  if (o.vocab_size() < 256 + specials)
    check::fail(train_op, "vocab_size is ", o.vocab_size(), ": it must be at least ", 256 + specials,
                ", for the bytes and the special tokens");
  std::set<std::string> seen;
  Json added = Json::array();
  for (const std::string& special : o.special_tokens()) {
    unicode::check_utf8(train_op, special);
    if (special.empty() || !seen.insert(special).second)
      check::fail(train_op, "the special token '", special, "' is empty or there twice");
    added.push_back(special_json(special, added.size()));
  }
  const std::vector<Pair> pairs = learn_pairs(counted_words(text, o), o.vocab_size() - 256 - specials);
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", o.pattern()}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json file = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level_json()}}}},
                     {"post_processor", nullptr},
                     {"decoder", byte_level_json()},
                     {"model", model_json(o, pairs)}};
  return made("Tokenizer", {train_op, "the trained tokenizer", file}, file.dump() + '\n');
}

}  // namespace fit::text
