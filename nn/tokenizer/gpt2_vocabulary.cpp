#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/affixes.hpp"
#include "common/config.hpp"
#include "fit/nn/data/readers.hpp"
#include "fit/nn/tokenizer/tokenizer.hpp"
#include "tensor/check.hpp"
#include "tokenizers/tokens.hpp"
#include "unicode/byte_characters.hpp"

namespace fit::text {
namespace {

constexpr const char* gpt2_op = "GPT2Vocabulary";
constexpr std::size_t most_tokens = 10'000'000;
const std::string whole_token = "<|endoftext|>";

using TokenIds = std::unordered_map<std::string, std::int64_t>;

// The ids of vocab.json.
TokenIds ids_in(const io::InputFile& file, const io::Json& json) {
  if (!json.is_object()) file.fail("expected an object, from tokens to ids");
  TokenIds ids;
  std::vector<bool> seen(json.size());
  for (const auto& [token, id] : json.items()) {
    if (!id.is_natural() || id.natural() >= json.size() || seen[id.natural()])
      file.fail("the id of '", io::shown(token), "' is ", io::shown(id.dump()), ": expected each of 0 … ",
                json.size() - 1, " once");
    seen[id.natural()] = true;
    ids[token] = id.integer();
  }
  return ids;
}

// The two tokens of a line of merges.txt, and the one that they are joined.
GPT2Vocabulary::Merge merge_in(const std::string& line, const TokenIds& ids, const std::string& place,
                               const std::string& vocab_json) {
  const std::size_t blank = line.find(' ');
  const auto id = [&](const std::string& token) {
    const auto found = ids.find(token);
    if (blank == std::string::npos || found == ids.end())
      throw FileError(std::string("[") + gpt2_op + "] " + place + ": '" + io::shown(line) +
                      "' is not a pair of tokens that, joined, is a token of " + vocab_json);
    return found->second;
  };
  const std::string a = line.substr(0, blank), b = blank == std::string::npos ? "" : line.substr(blank + 1);
  return {id(a), id(b), id(a + b)};
}

// Of merges of one pair the last counts, as in the reference.
void keep_last(std::vector<GPT2Vocabulary::Merge>& merges) {
  std::set<Pair> seen;
  const auto kept = std::remove_if(merges.rbegin(), merges.rend(),
                                   [&](const auto& m) { return !seen.emplace(m.first, m.second).second; });
  merges.erase(merges.begin(), kept.base());
}

}  // namespace

GPT2Vocabulary GPT2Vocabulary::load(const std::string& vocab_json, const std::string& merges_txt) {
  io::InputFile file(gpt2_op, vocab_json);
  io::Json vocabulary = io::parse_json(file, file.rest(), {1, most_tokens}), merges = io::Json::array();
  const TokenIds ids = ids_in(file, vocabulary);
  GPT2Vocabulary v;
  for (int b = 0; b < 256; ++b) {
    const std::string token = unicode::characters_of_bytes({static_cast<char>(b)});
    const auto found = ids.find(token);
    if (found == ids.end()) file.fail("there is no token '", token, "', which is that of a byte");
    v.bytes_.push_back(found->second);
  }
  std::int64_t number = 0;
  for (const std::string& line : data::read_lines(merges_txt)) {
    ++number;
    if (line.empty() || starts_with(line, "#version")) continue;
    v.merges_.push_back(merge_in(line, ids, merges_txt + ", line " + std::to_string(number), vocab_json));
    merges.push_back(line);
  }
  keep_last(v.merges_);
  io::Json parts = {{"added_tokens", io::Json::array()},
                    {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                    {"model", {{"type", "BPE"}}},
                    {"decoder", {{"type", "ByteLevel"}}}};
  if (const auto found = ids.find(whole_token); found != ids.end()) {
    v.end_of_text_ = found->second;
    parts["added_tokens"].push_back({{"id", found->second}, {"content", whole_token}, {"special", true}});
  }
  parts["model"]["vocab"] = std::move(vocabulary);
  parts["model"]["merges"] = std::move(merges);
  v.tokenizer_ =
      std::make_shared<const Tokenizer>(Tokenizer::made(gpt2_op, {gpt2_op, vocab_json, std::move(parts)}, {}));
  return v;
}

const Tokenizer& GPT2Vocabulary::tokenizer() const {
  check_not_moved(gpt2_op, tokenizer_);
  return *tokenizer_;
}

std::int64_t GPT2Vocabulary::size() const { return tokenizer().size(); }

Tensor GPT2Vocabulary::encode(const std::string& text) const { return tokenizer().encode(text); }

const std::string& GPT2Vocabulary::token(std::int64_t id) const { return tokenizer().token(id); }

}  // namespace fit::text
