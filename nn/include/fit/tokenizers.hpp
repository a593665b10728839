#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fit/text.hpp"

/// The tokenizers of pretrained models, from the files that come with them. They give the ids that Hugging Face's
/// tokenizers give.
///
///     const text::WordPieces pieces = text::WordPieces::load("vocab.txt");  // BERT, uncased
///     const text::Batch batch = pieces.encode({"A sentence.", "Another one."}, 256);
///     bert(batch.ids, batch.mask);
namespace fit::text {

/// Texts of different lengths in one tensor.
struct Batch {
  Tensor ids;   ///< [B, T] int64; behind the end of a text, the id of padding
  Tensor mask;  ///< (B, 1, T) boolean; true where a text is
};

/// BERT's word pieces (Wu et al. 2016), uncased: a text is made lower case without accents, cut into words at white
/// space and around punctuation and Chinese characters, and each word into the longest pieces that are in the list. The
/// pieces within a word begin with "##". A word that can't be made of pieces, or that has more than 100 characters, is
/// [UNK].
class WordPieces {
 public:
  /// The pieces in the order of their ids. Throws Error if one is empty or there twice, or if [PAD], [UNK], [CLS] or
  /// [SEP] is not there.
  explicit WordPieces(std::vector<std::string> pieces);
  /// One piece a line. Throws FileError.
  static WordPieces load(const std::string& path);

  /// How many pieces there are.
  std::int64_t size() const { return static_cast<std::int64_t>(pieces_.size()); }
  /// [CLS], the pieces and [SEP], int64 [N]; of a text that gives more than max_length ids, the first max_length - 2
  /// pieces. 0: all. Throws Error if the text is not UTF-8, or max_length is 1 or negative.
  Tensor encode(const std::string& text, std::int64_t max_length = 0) const;
  /// Several texts, each as above. Throws Error if there are none.
  Batch encode(const std::vector<std::string>& texts, std::int64_t max_length = 0) const;

  /// Throw Error for a piece, or an id, that is not there.
  std::int64_t id(const std::string& piece) const;
  const std::string& token(std::int64_t id) const;
  /// Words with a blank between them, without [PAD], [CLS] and [SEP].
  std::string decode(const Tensor& ids) const;

 private:
  std::vector<std::int64_t> ids_of(const std::string& text, std::int64_t max_length) const;
  void add_words(std::vector<std::int64_t>& ids, const std::string& text) const;
  void add_word(std::vector<std::int64_t>& ids, const std::u32string& word) const;

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int64_t> ids_;
  std::int64_t pad_, unknown_, begin_, end_, mask_;  // mask_: -1 if there is no [MASK]
};

/// GPT-2's byte pairs (Radford et al. 2019): a text is cut into words, each with the blank before it, and of a word's
/// bytes those two neighbours are joined, again and again, that stand first in the list of merges. Every text can be
/// encoded, and decoding gives it back. "<|endoftext|>" in a text is one token, if the vocabulary has it.
class GPT2Vocabulary final : public Vocabulary {
 public:
  /// From "vocab.json", tokens to ids, and "merges.txt", a pair a line. Throws FileError for files that are not exactly
  /// such, or don't fit each other.
  static GPT2Vocabulary load(const std::string& vocab_json, const std::string& merges_txt);

  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  /// Throws Error if the text is not UTF-8.
  Tensor encode(const std::string& text) const override;
  const std::string& token(std::int64_t id) const override;

 private:
  GPT2Vocabulary() = default;
  void add_words(std::vector<std::int64_t>& ids, const std::string& text) const;
  void add_word(std::vector<std::int64_t>& ids, const std::string& word) const;

  struct Merge {
    std::int64_t rank, joined;
  };
  std::vector<std::string> tokens_;  // their bytes
  std::vector<std::int64_t> bytes_;  // the token of each byte
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::int64_t end_of_text_ = -1;
};

}  // namespace fit::text
