#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/tokenizers/text.hpp"
#include "fit/nn/tokenizers/tokenizers.hpp"

/// The tokenizers of the Hugging Face Hub, by their file tokenizer.json.
///
///     const text::Tokenizer tokenizer = text::Tokenizer::load("SmolLM2-135M/tokenizer.json");
///     const Tensor ids = tokenizer.encode("Once upon a time");
///     std::cout << tokenizer.decode(ids);
namespace fit::io {
class Config;
}

namespace fit::text {

/// Whether a tokenizer adds the tokens that it has for the begin and the end of a text, and shows such tokens.
enum class SpecialTokens : bool { without, with };

/// The tokens of a text.
struct Encoding {
  std::vector<std::int64_t> ids;
  /// As the vocabulary has them: "Ġtime", "##ing"; of Unigram, a text that is not in the vocabulary is itself.
  std::vector<std::string> tokens;
  /// The bytes of the text that each token stands for, [begin, end); (0, 0) for tokens that were added.
  std::vector<std::pair<std::int64_t, std::int64_t>> offsets;
};

/// The pattern of GPT-4 and Llama 3, by which a text is split before pairs are joined: contractions, words with the
/// sign before them, up to three digits, signs, white space.
extern const char* const gpt4_pattern;

/// The options of Tokenizer::train().
struct TokenizerOptions {
  FIT_OPTION(std::int64_t, vocab_size) = 0;  ///< The number of tokens, with the 256 bytes and the special tokens.
  /// Tokens that are found in a text as a whole, and not shown: "<|endoftext|>". They have the first ids.
  FIT_OPTION(std::vector<std::string>, special_tokens);
  FIT_OPTION(std::string, pattern) = gpt4_pattern;  ///< How texts are split, as a regular expression.
};

/// A tokenizer of a model: normalisation, splitting into words, byte pairs, word pieces or unigrams, tokens that were
/// added, and decoding, as tokenizer.json says. The ids are those of Hugging Face's tokenizers. A part or a pattern
/// that is not known here is an Error, never left out. Truncation and padding in the file do not count, as in
/// transformers. It keeps the tokens of words that came lately, in some megabytes. Threads may use one tokenizer at
/// once.
///
/// The parts are: BertNormalizer, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Lowercase, StripAccents, Strip, Prepend,
/// Replace; ByteLevel, Metaspace, Split, Digits, BertPreTokenizer, Whitespace, WhitespaceSplit, Punctuation; BPE,
/// WordPiece, WordLevel, Unigram; TemplateProcessing, BertProcessing, RobertaProcessing; and the decoders of these; and
/// sequences of them.
///
/// Patterns mean what Oniguruma means by them, by which Hugging Face's tokenizers split. They have
///
///     groups        (…) (?:…) (?>…) (?i:…) (?i)
///     looks ahead   (?=…) (?!…)
///     places        ^ $ \A \z \Z \b \B
///     repetitions   ? * + {n,m}, lazy (*?) and possessive (*+); {1,3}+ repeats a repetition
///     classes       […] […[…]] […&&…] \s \d \w \h \S \D \W \H
///     properties    \p{…} \P{…}: the general categories, and the scripts Arabic, Armenian, Bengali, Bopomofo,
///                   Cyrillic, Devanagari, Georgian, Greek, Han, Hangul, Hebrew, Hiragana, Katakana, Khmer, Lao,
///                   Latin, Tamil, Telugu, Thai
///     characters    \x41 \x{1F600} \u4e00
///
/// Other escapes and properties, long names of categories, and [[:alpha:]] are an Error; so are lookbehind, back
/// references, named groups, the options m, s and x, octal numbers, and a repetition of a lazy or possessive one; and
/// without case, letters beyond ASCII, classes of letters in brackets, and ss, st, ff, fi, fl. Without look ahead and
/// atomic groups, no pattern takes longer than its length times that of the text.
class Tokenizer final : public Vocabulary {
 public:
  /// Reads tokenizer.json. Throws FileError, with the file and the key.
  static Tokenizer load(const std::string& path);
  /// Learns byte pairs (Sennrich et al. 2016), which split any text, and can be written as tokenizer.json. Ends early
  /// when no pair occurs twice. Throws Error for a vocab_size below 256 and the special tokens, for special tokens that
  /// are empty or occur twice, and if the text is not UTF-8.
  static Tokenizer train(const std::string& text, const TokenizerOptions& options);
  /// Writes the file that was read or learned.
  void save(const std::string& path) const;

  /// The largest id and one.
  std::int64_t size() const override;
  /// The ids with the special tokens of the file, int64 [N]. Throws Error if the text is not UTF-8.
  Tensor encode(const std::string& text) const override;
  /// The same with tokens and offsets.
  Encoding encoding(const std::string& text, SpecialTokens special = SpecialTokens::with) const;
  /// The ids of several texts, padded at the end. A longer text keeps its first tokens, so that with the special
  /// tokens it has max_length; 0: all. Throws Error if there are no texts.
  Batch encode(const std::vector<std::string>& texts, std::int64_t max_length = 0) const;

  /// The bytes of a token. Throws Error for an id that has none.
  const std::string& token(std::int64_t id) const override;
  /// The id of a token as the vocabulary has it, such as "Ġtime" or "<|endoftext|>"; -1 if there is none.
  std::int64_t id(const std::string& token) const;
  using Vocabulary::decode;
  /// The text, without special tokens. Bytes that are not UTF-8 become U+FFFD. What tokenizer_config.json says of
  /// spaces (clean_up_tokenization_spaces) does not count.
  std::string decode(const std::vector<std::int64_t>& ids) const override;
  std::string decode(const std::vector<std::int64_t>& ids, SpecialTokens special) const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  friend class WordPieces;
  friend class GPT2Vocabulary;
  /// From the object that the JSON text `file` holds. `op` is for messages.
  static Tokenizer made(const char* op, const io::Config& config, std::string file);
  std::shared_ptr<const Parts> parts_;
};

/// Decodes tokens as they come, in whole characters. What was shown stays: the rest is that of decode(), also where a
/// later byte token makes U+FFFD of the byte tokens before it.
///
///     text::TokenStream stream(tokenizer);
///     for (const std::int64_t id : ids) std::cout << stream.push(id) << std::flush;
///     std::cout << stream.finish();
class TokenStream {
 public:
  explicit TokenStream(Tokenizer tokenizer, SpecialTokens special = SpecialTokens::without);
  /// The text that this token completes; empty as long as a character is not complete.
  std::string push(std::int64_t id);
  /// What is left: a character that was not completed is U+FFFD.
  std::string finish();

 private:
  std::string fresh(const std::string& text) const;
  Tokenizer tokenizer_;
  SpecialTokens special_;
  std::vector<std::int64_t> ids_;                        // the last that were shown, and those behind them
  std::size_t kept_ids_ = 0;                             // of the first of these, which go when others were shown
  std::string shown_;                                    // the text of those that were shown, alone
  std::size_t shown_bytes_ = 0, shown_behind_kept_ = 0;  // as they were shown
};

}  // namespace fit::text
