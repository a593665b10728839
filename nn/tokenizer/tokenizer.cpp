#include "fit/nn/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/affixes.hpp"
#include "common/utf8.hpp"
#include "fit/ops/ops.hpp"
#include "io/atomic_file.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/word_cutter.hpp"
#include "tokenizers/tokens.hpp"
#include "unicode/byte_characters.hpp"
#include "unicode/characters.hpp"

namespace fit::text {
namespace {

constexpr const char* tokenizer_op = "Tokenizer";
constexpr std::size_t longest_list = 20'000'000;

}  // namespace

/// A tokenizer.json.
struct TokenizerParts {
  const char* op;    // in errors
  std::string file;  // the JSON text
  Normalizer normalizer;
  std::unique_ptr<Model> model;
  std::unique_ptr<WordCutter> words;
  Decoder decoder;
  Frame frame;
  std::deque<AddedToken> added;  // their addresses stay
  std::unordered_map<std::string, const AddedToken*> added_by_content;
  TokenFinder plain, normalized;
  struct Entry {
    std::string content;  // as it is decoded
    std::string bytes;
    bool special = false;
  };
  std::unordered_map<std::int64_t, Entry> entries;
  std::int64_t size = 0, padding = 0;

  void read(const io::Config& config);
  Ids ids_of(const std::string& text, std::int64_t max_length) const;
  /// Calls f with each token of a text, and the bytes of the text that it stands for. Throws Error if the text is not
  /// UTF-8.
  void each_token(const std::string& text, const WordCutter::Use& f) const;

 private:
  void add(const io::Config& config);
  void read_words(const io::Config& config);
};
// The class of the public header, whose functions a shared library would export.
struct Tokenizer::Parts : TokenizerParts {};

// ---- reading ------------------------------------------------------------------------------------------------------

void TokenizerParts::add(const io::Config& config) {
  if (!config.has("added_tokens")) return;
  for (const io::Config& one : config.objects("added_tokens")) {
    AddedToken token;
    token.id = one.integer("id");
    token.content = one.text("content");
    token.single_word = one.boolean("single_word", false);
    token.lstrip = one.boolean("lstrip", false);
    token.rstrip = one.boolean("rstrip", false);
    token.normalized = one.boolean("normalized", false);
    token.special = one.boolean("special", false);
    one.check_all_read();
    if (token.id < 0 || token.id >= largest_id) one.fail("id", " is ", token.id, ": expected a number below 2^31");
    if (token.content.empty()) one.fail("content", " is empty");
    const std::int64_t known = model->id(token.content);
    if (known >= 0 && known != token.id) one.fail("id", " is ", token.id, ", and ", known, " in the vocabulary");
    if (!added_by_content.emplace(token.content, nullptr).second)
      one.fail("content", " is '", io::shown(token.content), "', which is there twice");
    added.push_back(token);
    const AddedToken* const stored = &added.back();
    added_by_content[token.content] = stored;
    std::string decoded = token.content;
    if (token.normalized) {
      Normalized x(token.content);
      normalizer(x);
      decoded = x.text();
    }
    (token.normalized ? normalized : plain).add(decoded, stored);
    entries[token.id] = {decoded, token.content, token.special};
  }
}

Tokenizer Tokenizer::load(const std::string& path) {
  std::string file = io::InputFile(tokenizer_op, path).rest();
  const io::Config config(tokenizer_op, path, io::InputFile(tokenizer_op, path, file), {12, longest_list});
  return made(tokenizer_op, config, std::move(file));
}

Tokenizer Tokenizer::made(const char* op, const io::Config& config, std::string file) {
  const auto parts = std::make_shared<Parts>();
  parts->op = op;
  parts->file = std::move(file);
  try {
    parts->read(config);
  } catch (const FileError&) {
    throw;
  } catch (const Error& e) {
    throw FileError(std::string("[") + op + "] " + config.path() + ": " + e.what());
  }
  return Tokenizer(parts);
}

void TokenizerParts::read(const io::Config& config) {
  normalizer = normalizer_of(config, "normalizer");
  model = model_of(config, "model");
  decoder = decoder_of(config, "decoder");
  frame = frame_of(config, "post_processor");
  const bool bytes = config.has("decoder") && config.value("decoder").dump().find("\"ByteLevel\"") != std::string::npos;
  for (const auto& [content, id] : model->ids())
    entries[id] = {content, bytes ? unicode::bytes_of_token(content) : content};
  add(config);
  read_words(config);
  for (const auto& [id, entry] : entries) size = std::max(size, id + 1);
  for (const auto* side : {&frame.before, &frame.behind})
    for (const Token& token : *side)
      if (entries.count(token.id) == 0)
        config.fail("post_processor", " adds the token ", token.id, ", which is not in the vocabulary");
  if (config.has("padding")) padding = config.object("padding").integer("pad_id", 0);
  if (entries.count(padding) == 0) padding = entries.empty() ? 0 : entries.begin()->first;
  config.ignore({"version", "truncation", "padding"});
  config.check_all_read();
}

void TokenizerParts::read_words(const io::Config& config) {
  PreTokenizers first = pre_tokenizers_of(config, "pre_tokenizer"), then;
  const auto is = [&](const std::string& key, const char* type) {
    return config.has(key) && config.object(key).text("type") == type;
  };
  if (is("normalizer", "BertNormalizer") && is("pre_tokenizer", "BertPreTokenizer") && normalized.empty()) {
    // It normalises each word by itself, and white space parts words before and behind it.
    then = std::move(first);
    then.insert(then.begin(), each_normalized(std::exchange(normalizer, [](Normalized&) {})));
    first = {ascii_words()};
  } else if (first.size() > 1) {
    then.push_back(std::move(first.back()));
    first.pop_back();
  }
  words = std::make_unique<WordCutter>(std::move(first), std::move(then), *model);
}

void Tokenizer::save(const std::string& path) const {
  check_not_moved(tokenizer_op, parts_);
  io::write_file(tokenizer_op, path, parts_->file);
}

// ---- encoding -----------------------------------------------------------------------------------------------------

void TokenizerParts::each_token(const std::string& text, const WordCutter::Use& f) const {
  unicode::check_utf8(op, text);
  const auto add_found = [&](const Normalized& part, const Found& found) {
    const Normalized slice = part.slice(found.begin, found.end);
    f({found.token->id, slice.text(), {}}, slice.origin(0, slice.text().size()));
  };
  const Normalized whole(text);
  for (const Found& found : plain.parts(text)) {
    if (found.token) {
      add_found(whole, found);
      continue;
    }
    Normalized part = whole.slice(found.begin, found.end);
    normalizer(part);
    for (const Found& inner : normalized.parts(part.text())) {
      if (inner.token)
        add_found(part, inner);
      else
        words->each_token(part.slice(inner.begin, inner.end), f);
    }
  }
}

namespace {

// Removes spaces from the ends of a token's span, as many as its content begins and ends with.
void trim(const std::string& text, const std::string& token, Span& span, bool first, bool prefix_space) {
  const std::vector<char32_t> content = characters(token);
  const auto is_blank = [](char32_t c) { return c == unicode::character_of_byte(' ') || unicode::is_space(c); };
  std::size_t leading = 0, trailing = 0;
  while (leading < content.size() && is_blank(content[leading])) ++leading;
  while (trailing < content.size() && is_blank(content[content.size() - 1 - trailing])) ++trailing;
  auto& [begin, end] = span;
  if ((first || begin == 0) && prefix_space && leading == 1) leading = 0;
  for (; leading > 0 && begin < end; --leading) utf8::next(text, begin);
  for (; trailing > 0 && end > begin; --trailing) do
      --end;
    while (end > begin && !utf8::starts_code_point(text[end]));
}

}  // namespace

Encoding Tokenizer::encoding(const std::string& text, SpecialTokens special) const {
  check_not_moved(tokenizer_op, parts_);
  Encoding all;
  const auto add = [&](const Token& token, Span span) {
    all.ids.push_back(token.id);
    all.tokens.push_back(token.content);
    all.offsets.emplace_back(span.first, span.second);
  };
  const auto add_special = [&](const std::vector<Token>& some) {
    for (const Token& token : some)
      if (special == SpecialTokens::with) add(token, token.span);
  };
  const Frame& frame = parts_->frame;
  bool first = true;
  add_special(frame.before);
  parts_->each_token(text, [&](const Token& token, Span span) {
    if (frame.trims) trim(text, token.content, span, first, frame.prefix_space);
    first = false;
    add(token, span);
  });
  add_special(frame.behind);
  return all;
}

Ids TokenizerParts::ids_of(const std::string& text, std::int64_t max_length) const {
  Ids ids;
  for (const Token& token : frame.before) ids.push_back(token.id);
  each_token(text, [&](const Token& token, Span) { ids.push_back(token.id); });
  if (max_length > 0) ids.resize(std::min(ids.size(), static_cast<std::size_t>(max_length) - frame.behind.size()));
  for (const Token& token : frame.behind) ids.push_back(token.id);
  return ids;
}

Tensor Tokenizer::encode(const std::string& text) const {
  check_not_moved(tokenizer_op, parts_);
  return ids_tensor(parts_->ids_of(text, 0));
}

Batch Tokenizer::encode(const std::vector<std::string>& texts, std::int64_t max_length) const {
  check_not_moved(tokenizer_op, parts_);
  const auto added = static_cast<std::int64_t>(parts_->frame.before.size() + parts_->frame.behind.size());
  if (texts.empty()) check::fail(parts_->op, "there are no texts: give at least one");
  if (max_length < 0 || (max_length > 0 && max_length < added))
    check::fail(parts_->op, "max_length is ", max_length, ": it must be 0 (all) or at least ", added,
                ", the number of tokens that are added");
  std::vector<Ids> rows;
  std::vector<std::int64_t> lengths;
  for (const std::string& text : texts) {
    rows.push_back(parts_->ids_of(text, max_length));
    lengths.push_back(static_cast<std::int64_t>(rows.back().size()));
  }
  const std::int64_t T = *std::max_element(lengths.begin(), lengths.end()), B = static_cast<std::int64_t>(texts.size());
  Ids ids;
  for (Ids& row : rows) {
    row.resize(static_cast<std::size_t>(T), parts_->padding);
    ids.insert(ids.end(), row.begin(), row.end());
  }
  return {tensor(ids, {B, T}), arange(T).reshape({1, 1, T}) < tensor(lengths, {B, 1, 1})};
}

// ---- decoding -----------------------------------------------------------------------------------------------------

std::int64_t Tokenizer::size() const {
  check_not_moved(tokenizer_op, parts_);
  return parts_->size;
}

std::int64_t Tokenizer::id(const std::string& token) const {
  check_not_moved(tokenizer_op, parts_);
  const auto added = parts_->added_by_content.find(token);
  return added == parts_->added_by_content.end() ? parts_->model->id(token) : added->second->id;
}

const std::string& Tokenizer::token(std::int64_t id) const {
  check_not_moved(tokenizer_op, parts_);
  const auto found = parts_->entries.find(id);
  if (found == parts_->entries.end())
    check::fail(parts_->op, "there is no token ", id, ": the ids are below ", parts_->size);
  return found->second.bytes;
}

std::string Tokenizer::decode(const std::vector<std::int64_t>& ids) const {
  return decode(ids, SpecialTokens::without);
}

std::string Tokenizer::decode(const std::vector<std::int64_t>& ids, SpecialTokens special) const {
  check_not_moved(tokenizer_op, parts_);
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) {
    token(id);
    const Parts::Entry& entry = parts_->entries.at(id);
    if (special == SpecialTokens::with || !entry.special) tokens.push_back(entry.content);
  }
  parts_->decoder(tokens);
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

// ---- TokenStream --------------------------------------------------------------------------------------------------

TokenStream::TokenStream(Tokenizer tokenizer, SpecialTokens special)
    : tokenizer_(std::move(tokenizer)), special_(special) {}

// What is new in the text of ids_. Where a later byte token made U+FFFD of each byte token before it, what was shown of
// these stays, and the new begins behind as many U+FFFD.
std::string TokenStream::fresh(const std::string& text) const {
  if (starts_with(text, shown_)) return text.substr(shown_.size());
  std::size_t at = 0;
  while (at < text.size() && text[at] == shown_[at]) ++at;
  while (at > 0 && !utf8::starts_code_point(text[at])) --at;
  // At 0, the text lacks nothing that a decoder strips.
  const std::size_t changed = at == 0 ? shown_bytes_ : shown_.size() - at;
  for (std::size_t n = changed; n > 0 && at < text.size(); --n) utf8::next(text, at);
  return text.substr(at);
}

std::string TokenStream::push(std::int64_t id) {
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_, special_);
  const char* const unfinished = "\xEF\xBF\xBD";
  std::string added = fresh(text);
  if (added.empty() || ends_with(text, unfinished)) return {};
  shown_bytes_ += added.size();
  shown_behind_kept_ += added.size();
  // The tokens of this text stay, because decoders treat the first token in another way; and those before, if a decoder
  // strips this text as the first.
  const std::vector<std::int64_t> last(ids_.begin() + static_cast<std::ptrdiff_t>(kept_ids_), ids_.end());
  shown_ = tokenizer_.decode(last, special_);
  if (shown_.empty()) {
    shown_ = text;
  } else {
    ids_ = last;
    kept_ids_ = ids_.size();
    shown_bytes_ = std::exchange(shown_behind_kept_, 0);
  }
  return added;
}

std::string TokenStream::finish() {
  std::string rest = fresh(tokenizer_.decode(ids_, special_));
  ids_.clear();
  shown_.clear();
  kept_ids_ = shown_bytes_ = shown_behind_kept_ = 0;
  return rest;
}

}  // namespace fit::text
