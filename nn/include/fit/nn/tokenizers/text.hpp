#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fit/nn/data/data.hpp"

/// Text for language models: vocabularies, and a dataset of windows of a long text.
///
///     const std::string text = data::read_text("shakespeare.txt");
///     const text::CharVocabulary letters(text);
///     data::DataLoader loader(text::TextWindows(letters.encode(text), 64), /*batch_size=*/12);
namespace fit::text {

/// Tokens and their ids, 0 … size() - 1.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  virtual std::int64_t size() const = 0;
  /// The ids of a text's tokens, int64 [N].
  virtual Tensor encode(const std::string& text) const = 0;
  /// The text of a token. Throws Error for an unknown id.
  virtual const std::string& token(std::int64_t id) const = 0;
  /// The text of int64 ids of any shape, in order, or of a result of nn::generate().
  std::string decode(const Tensor& ids) const;
  virtual std::string decode(const std::vector<std::int64_t>& ids) const;
};

/// The text of tokens as they come, in whole characters (UTF-8), for GenerateOptions::on_token():
///
///     text::Stream stream(vocabulary);
///     options.on_token([&](std::int64_t, std::int64_t token) { std::cout << stream.add(token) << std::flush; });
class Stream {
 public:
  /// The vocabulary must outlive the stream.
  explicit Stream(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}
  /// The characters that this token completes. Bytes that begin one wait for the next token.
  std::string add(std::int64_t id);
  /// The bytes that wait. At the end of a text they are a character that was not completed.
  const std::string& waiting() const { return waiting_; }

 private:
  const Vocabulary* vocabulary_;
  std::string waiting_;
};

/// One token for each character (UTF-8 code point) of a text, in the order of code points.
class CharVocabulary final : public Vocabulary {
 public:
  /// Throws Error if the text is not UTF-8.
  explicit CharVocabulary(const std::string& text);
  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  /// Throws Error, with the position, for a character that is not in the vocabulary.
  Tensor encode(const std::string& text) const override;
  const std::string& token(std::int64_t id) const override;

  /// Writes a JSON file atomically, and reads it. load() throws FileError for any other file.
  void save(const std::string& path) const;
  static CharVocabulary load(const std::string& path);

 private:
  std::vector<std::string> tokens_;
  struct Ids;
  std::shared_ptr<const Ids> ids_;  // by token
};

/// Byte-pair encoding (Sennrich et al. 2016, on bytes). The tokens 0 … 255 are the bytes. Each further token joins two
/// earlier tokens. Every text can be encoded, and decoding restores it. Pairs are joined within words; a word includes
/// the space before it, as in GPT-2. The most frequent pair is joined first; among equals, the smaller ids. A token has
/// at most 256 bytes.
class BytePairVocabulary final : public Vocabulary {
 public:
  using Merges = std::vector<std::pair<std::int64_t, std::int64_t>>;

  /// Learns up to `size` tokens. Ends early when no pair occurs twice. Throws Error for a size below 256.
  static BytePairVocabulary train(const std::string& text, std::int64_t size);
  /// Constructs from the pairs that the tokens 256, 257 … join. Throws Error for a pair of later tokens, a duplicate
  /// pair, and a token that is too long.
  explicit BytePairVocabulary(const Merges& merges);

  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  Tensor encode(const std::string& text) const override;
  const std::string& token(std::int64_t id) const override;
  /// The pairs that the tokens 256, 257 … join.
  const Merges& merges() const { return merges_; }

  /// Writes a JSON file atomically, and reads it. load() throws FileError for any other file.
  void save(const std::string& path) const;
  static BytePairVocabulary load(const std::string& path);

 private:
  Merges merges_;
  std::vector<std::string> tokens_;
  struct Joined;
  std::shared_ptr<const Joined> joined_;  // the merges, by their pairs
};

/// Windows of `length` tokens of a long text. The example at each multiple i of `stride` is
/// {ids[i … i + length - 1], ids[i + 1 … i + length]}: the target of a token is the next token. Throws Error if the
/// text is shorter than one window.
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
