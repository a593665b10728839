#pragma once
#include <vector>

#include "unicode/characters.hpp"

/// The normal forms NFD and NFC (Unicode Standard Annex 15), as the reference tokenizers know them.
namespace fit::unicode {

namespace tables {
extern const Table decompositions, combining_classes, compositions;
}

/// A character of a new text, and how many characters more (or, if negative, fewer) than one of the old text it stands
/// for: 0 replaces one; 1 is added; -2 replaces three.
struct Change {
  char32_t c;
  int added;
};
using Changes = std::vector<Change>;
/// The canonical decomposition, and its composition.
Changes decomposed(const Points& text);
Changes composed(const Points& text);

}  // namespace fit::unicode
