#include <unordered_map>
#include <utility>

#include "common/config.hpp"
#include "fit/nn/data/readers.hpp"
#include "fit/nn/tokenizer/tokenizer.hpp"
#include "tensor/check.hpp"
#include "tokenizers/tokens.hpp"

namespace fit::text {
namespace {

constexpr const char* word_pieces_op = "WordPieces";

[[noreturn]] void fail_unknown_piece(const std::string& piece, std::size_t size) {
  check::fail(word_pieces_op, "there is no piece '", piece, "' among the ", size);
}

}  // namespace

WordPieces::WordPieces(const std::vector<std::string>& pieces) {
  io::Json vocabulary = io::Json::object(), added = io::Json::array();
  std::unordered_map<std::string, std::size_t> ids;
  for (const std::string& piece : pieces) {
    if (piece.empty()) check::fail(word_pieces_op, "piece ", ids.size(), " is empty");
    vocabulary.items().push_back({piece, ids.size()});
    if (!ids.emplace(piece, ids.size()).second) check::fail(word_pieces_op, "the piece '", piece, "' is there twice");
  }
  // The name of a special token in a text is that token. Decoding shows what stands for a part of a text.
  for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    const std::string piece = name;
    const bool shown = piece == "[UNK]" || piece == "[MASK]";
    if (ids.count(piece) > 0)
      added.push_back({{"id", ids[piece]}, {"content", piece}, {"special", !shown}});
    else if (piece != "[MASK]")
      fail_unknown_piece(piece, pieces.size());
  }
  io::Json file = {{"added_tokens", added},
                   {"normalizer", {{"type", "BertNormalizer"}}},
                   {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                   {"model", {{"type", "WordPiece"}}},
                   {"post_processor",
                    {{"type", "BertProcessing"}, {"cls", {"[CLS]", ids["[CLS]"]}}, {"sep", {"[SEP]", ids["[SEP]"]}}}},
                   {"decoder", {{"type", "WordPiece"}, {"cleanup", false}}},
                   {"padding", {{"pad_id", ids["[PAD]"]}}}};
  file["model"]["vocab"] = std::move(vocabulary);
  tokenizer_ = std::make_shared<const Tokenizer>(
      Tokenizer::made(word_pieces_op, {word_pieces_op, "the pieces", std::move(file)}, {}));
}

WordPieces WordPieces::load(const std::string& path) {
  try {
    return WordPieces(data::read_lines(path));
  } catch (const Error& e) {
    throw FileError(std::string("[WordPieces] ") + path + ": " + e.what());
  }
}

const Tokenizer& WordPieces::tokenizer() const {
  check_not_moved(word_pieces_op, tokenizer_);
  return *tokenizer_;
}

std::int64_t WordPieces::size() const { return tokenizer().size(); }

Tensor WordPieces::encode(const std::string& text, std::int64_t max_length) const {
  return encode(std::vector<std::string>{text}, max_length).ids.flatten();
}

Batch WordPieces::encode(const std::vector<std::string>& texts, std::int64_t max_length) const {
  return tokenizer().encode(texts, max_length);
}

std::int64_t WordPieces::id(const std::string& piece) const {
  const std::int64_t id = tokenizer().id(piece);
  if (id < 0) fail_unknown_piece(piece, static_cast<std::size_t>(size()));
  return id;
}

const std::string& WordPieces::token(std::int64_t id) const { return tokenizer().token(id); }

std::string WordPieces::decode(const Tensor& ids) const { return tokenizer().decode(ids); }

}  // namespace fit::text
