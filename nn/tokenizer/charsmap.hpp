#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/normalized.hpp"

namespace fit::text {

/// The normalisation that a SentencePiece model holds, its precompiled_charsmap: the number of bytes of a double array
/// (Aoe 1989), the array, and the texts that its values point to, each with a 0 at its end.
class Charsmap {
 public:
  /// From base64. Throws Error.
  explicit Charsmap(const std::string& base64);
  /// Replaces what the map knows, in the way of the reference: a grapheme cluster of up to five bytes, or a character,
  /// whose first bytes are in the map becomes what the shortest such bytes stand for, as a whole.
  void normalize(Normalized& text) const;

 private:
  std::optional<std::vector<char32_t>> replacement(const std::string& piece) const;
  bool add_replaced(const std::string& piece, std::size_t characters, unicode::Changes& changes) const;
  std::uint32_t unit(std::size_t at) const { return at < units_.size() ? units_[at] : 0; }

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace fit::text
