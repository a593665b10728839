#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// What the reference knows of characters, beside fit/data/unicode.hpp: normal forms, lower case, classes.
namespace fit::text {

namespace tables {
struct Table {
  const std::int32_t* numbers;
  std::size_t size;
};
extern const Table decompositions, combining_classes, compositions, lower_case, lower_case_several, control, nonspacing,
    combining, numeric, word, category_M, category_P, category_S, category_Lu, category_Ll, category_Lt, category_Lm,
    category_Nd, regex_word;
}  // namespace tables

/// A set of characters. Sets are made at their first use.
using CharacterSet = bool (*)(char32_t);
/// The set of a Unicode category, "L", "Lu" …, or null if it is not known here.
CharacterSet category(const std::string& name);
bool is_control(char32_t c);     // BERT removes these
bool is_nonspacing(char32_t c);  // category Mn
bool is_combining(char32_t c);   // category M, as a normaliser knows it
bool is_numeric(char32_t c);     // of the pre-tokenizer Digits
bool is_word(char32_t c);        // \w of added tokens and of the pre-tokenizer Whitespace
bool is_regex_word(char32_t c);  // \w of patterns

/// A character of a new text, and how many characters more (or, if negative, fewer) than one of the old text it stands
/// for: 0 replaces one; 1 is added; -2 replaces three.
struct Change {
  char32_t c;
  int added;
};
using Changes = std::vector<Change>;
/// The canonical decomposition, and its composition (Unicode Standard Annex 15).
Changes decomposed(const std::vector<char32_t>& text);
Changes composed(const std::vector<char32_t>& text);
/// The lower case of one character.
std::vector<char32_t> lower_case_of(char32_t c);

}  // namespace fit::text
