#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fit/data.hpp"

/// Text for language models: vocabularies, and windows of a long text as examples.
///
///     const std::string text = data::read_text("shakespeare.txt");
///     const text::CharVocabulary letters(text);
///     data::DataLoader loader(text::TextWindows(letters.encode(text), 64), /*batch_size=*/12);
namespace fit::text {

/// Tokens and their numbers, 0 … size() - 1.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  virtual std::int64_t size() const = 0;
  /// The numbers of a text's tokens, int64 [N].
  virtual Tensor encode(const std::string& text) const = 0;
  /// One token's text. Throws Error for a number that no token has.
  virtual const std::string& token(std::int64_t id) const = 0;
  /// The text of int64 ids of any shape, in their order; or of those that nn::generate() gives.
  std::string decode(const Tensor& ids) const;
  std::string decode(const std::vector<std::int64_t>& ids) const;
};

/// A token for each character (code point of UTF-8) that stands in a text, in their order.
class CharVocabulary final : public Vocabulary {
 public:
  /// Throws Error if the text is not UTF-8.
  explicit CharVocabulary(const std::string& text);
  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  /// Throws Error, with the place, for a character that is not in the vocabulary.
  Tensor encode(const std::string& text) const override;
  const std::string& token(std::int64_t id) const override;

  /// A JSON file, written whole or not at all. load() throws FileError for one that is not exactly such.
  void save(const std::string& path) const;
  static CharVocabulary load(const std::string& path);

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int64_t> ids_;
};

/// Byte pairs (Sennrich et al. 2016, on bytes): the tokens 0 … 255 are the bytes, and each further one joins two that
/// come before it. Every text can be encoded, and decoding gives it back. Pairs are joined within words (a word takes
/// the blank before it along, as in GPT-2), and those that are most frequent first; among equals, the smaller numbers.
/// A token has at most 256 bytes.
class BytePairVocabulary final : public Vocabulary {
 public:
  using Merges = std::vector<std::pair<std::int64_t, std::int64_t>>;

  /// Learns up to `size` tokens; fewer, if no pair stands twice any more. Throws Error for a size below 256.
  static BytePairVocabulary train(const std::string& text, std::int64_t size);
  /// From the pairs that the tokens 256, 257 … join. Throws Error for a pair of later tokens, one that is there twice,
  /// and one that is too long.
  explicit BytePairVocabulary(const Merges& merges);

  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  Tensor encode(const std::string& text) const override;
  const std::string& token(std::int64_t id) const override;
  /// The pairs that the tokens 256, 257 … join.
  const Merges& merges() const { return merges_; }

  /// A JSON file, written whole or not at all. load() throws FileError for one that is not exactly such.
  void save(const std::string& path) const;
  static BytePairVocabulary load(const std::string& path);

 private:
  Merges merges_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::uint64_t, std::int64_t> joined_;  // pair -> token
};

/// A long text as examples of `length` tokens: {ids[i … i + length - 1], ids[i + 1 … i + length]} begins at each
/// multiple i of `stride`, so that every token has the next one as its target. Throws Error if the text is too short
/// for one.
class TextWindows final : public data::Dataset {
 public:
  TextWindows(Tensor ids, std::int64_t length, std::int64_t stride = 1);
  std::int64_t size() const override { return (ids_.numel() - length_ - 1) / stride_ + 1; }
  data::Example get(std::int64_t i) const override;

 private:
  Tensor ids_;
  std::int64_t length_, stride_;
};

}  // namespace fit::text
