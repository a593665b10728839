#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/normalized.hpp"
#include "unicode/characters.hpp"

namespace fit::text {

/// The regular expressions by which tokenizers split texts; fit/nn/tokenizer/tokenizer.hpp lists what they may have.
/// The first alternative that matches counts, as in Perl, and a turn of a repetition that takes nothing is its last. A
/// match takes time in proportion to its length and that of the pattern: no place in the pattern where two ways may
/// match is tried twice at one place of the text, but inside of (?=…), (?!…) and (?>…), which are tried anew.
class Regex {
 public:
  /// Throws Error, with the pattern, for anything else.
  explicit Regex(const std::string& pattern);
  /// The matches of a text, from the left, and what lies between. A match may be empty, but not behind another match.
  std::vector<Piece> pieces(const std::string& text) const;

  struct Program;

 private:
  std::shared_ptr<const Program> program_;
};

/// The same as a pattern for Normalized.
Pattern pattern_of(const Regex& regex);

}  // namespace fit::text
