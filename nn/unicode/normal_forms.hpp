#pragma once
#include <vector>

#include "unicode/characters.hpp"

/// The normal forms NFD, NFC, NFKD and NFKC (Unicode Standard Annex 15), as the reference tokenizers know them.
namespace fit::unicode {

namespace tables {
extern const Table decompositions, compatible, compatible_several, combining_classes, compositions;
}

/// A character of a new text, and how many characters more (or, if negative, fewer) than one of the old text it stands
/// for: 0 replaces one; 1 is added; -2 replaces three.
struct Change {
  char32_t c;
  int added;
};
using Changes = std::vector<Change>;
/// Whether a character becomes what is the same (é), or also what is only alike (ﬁ).
enum class Equivalence { canonical, compatible };
/// The decomposition (NFD, NFKD), and its composition (NFC, NFKC).
Changes decomposed(const Points& text, Equivalence to = Equivalence::canonical);
Changes composed(const Points& text, Equivalence to = Equivalence::canonical);

}  // namespace fit::unicode
