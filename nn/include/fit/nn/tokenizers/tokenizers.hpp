#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fit/nn/tokenizers/text.hpp"

/// The tokenizers of pretrained models, loaded from the files of the models. Their ids are those of Hugging Face's
/// tokenizers.
///
///     const text::WordPieces pieces = text::WordPieces::load("vocab.txt");  // BERT, uncased
///     const text::Batch batch = pieces.encode({"A sentence.", "Another one."}, 256);
///     bert(batch.ids, batch.mask);
namespace fit::text {

class Tokenizer;

/// Texts of different lengths in one tensor.
struct Batch {
  Tensor ids;   ///< [B, T] int64; the id of padding after the end of a text
  Tensor mask;  ///< (B, 1, T) boolean; false at padding
};

/// BERT's word pieces (Wu et al. 2016), uncased. Converts a text to lower case and removes accents. Splits it into
/// words at white space and around punctuation and Chinese characters. Splits each word into the longest known pieces.
/// Pieces within a word begin with "##". A word that cannot be split, or has more than 100 characters, becomes [UNK].
class WordPieces {
 public:
  /// `pieces` are in the order of their ids. Throws Error if a piece is empty or occurs twice, or if [PAD], [UNK],
  /// [CLS] or [SEP] is missing.
  explicit WordPieces(const std::vector<std::string>& pieces);
  /// Reads a file with one piece per line. Throws FileError.
  static WordPieces load(const std::string& path);

  /// The number of pieces.
  std::int64_t size() const;
  /// [CLS], the pieces and [SEP], int64 [N]. A longer text keeps its first max_length - 2 pieces; 0: all. Throws Error
  /// if the text is not UTF-8, or max_length is 1 or negative.
  Tensor encode(const std::string& text, std::int64_t max_length = 0) const;
  /// The same for several texts. Throws Error if there are none.
  Batch encode(const std::vector<std::string>& texts, std::int64_t max_length = 0) const;

  /// The id of a piece, and the piece of an id. Throw Error if it does not exist.
  std::int64_t id(const std::string& piece) const;
  const std::string& token(std::int64_t id) const;
  /// Words separated by spaces, without [PAD], [CLS] and [SEP].
  std::string decode(const Tensor& ids) const;

 private:
  const Tokenizer& tokenizer() const;

  std::shared_ptr<const Tokenizer> tokenizer_;
};

/// GPT-2's byte-pair encoding (Radford et al. 2019). Splits a text into words, each with the space before it. In a
/// word's bytes, it repeatedly joins the neighbours that come first in the list of merges. Every text can be encoded,
/// and decoding restores it. "<|endoftext|>" in a text is one token, if the vocabulary has it.
class GPT2Vocabulary final : public Vocabulary {
 public:
  /// Two neighbours, and the token that replaces them.
  struct Merge {
    std::int64_t first, second, joined;
  };

  /// Reads "vocab.json", a map from tokens to ids, and "merges.txt", one pair per line. Throws FileError for other
  /// files, or if they don't fit each other.
  static GPT2Vocabulary load(const std::string& vocab_json, const std::string& merges_txt);

  std::int64_t size() const override;
  /// Throws Error if the text is not UTF-8.
  Tensor encode(const std::string& text) const override;
  const std::string& token(std::int64_t id) const override;
  /// In the order in which they are applied.
  const std::vector<Merge>& merges() const { return merges_; }
  /// The tokens of the bytes 0 … 255.
  const std::vector<std::int64_t>& bytes() const { return bytes_; }
  /// The token "<|endoftext|>", or -1 if there is none.
  std::int64_t end_of_text() const { return end_of_text_; }

 private:
  GPT2Vocabulary() = default;
  const Tokenizer& tokenizer() const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::int64_t> bytes_;
  std::vector<Merge> merges_;
  std::int64_t end_of_text_ = -1;
};

}  // namespace fit::text
