#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// What the reference tokenizers know of characters: classes, lower case. normal_forms.hpp has the normal forms.
namespace fit::unicode {

namespace tables {
/// characters.py explains the formats.
struct Table {
  const std::int32_t* numbers;
  std::size_t size;
};
extern const Table letters, numbers, spaces, punctuation, control, nonspacing, combining, numeric, word, category_M,
    category_P, category_S, category_Lu, category_Ll, category_Lt, category_Lm, category_Nd, regex_word, lower_case,
    lower_case_several;
}  // namespace tables

using Points = std::vector<char32_t>;

/// Throws Error in the name of `op` if the text is not UTF-8.
Points points_of(const char* op, const std::string& text);
void append(std::string& text, char32_t point);

bool is_letter(char32_t c);       // \p{L} of GPT-2's pattern
bool is_number(char32_t c);       // \p{N}
bool is_space(char32_t c);        // \s
bool is_punctuation(char32_t c);  // BERT splits these into separate words
bool is_chinese(char32_t c);      // BERT puts spaces around these: the blocks of ideographs
bool is_control(char32_t c);      // BERT removes these
bool is_nonspacing(char32_t c);   // category Mn
bool is_combining(char32_t c);    // category M, as a normaliser knows it
bool is_numeric(char32_t c);      // of the pre-tokenizer Digits
bool is_word(char32_t c);         // \w of added tokens and of the pre-tokenizer Whitespace
bool is_regex_word(char32_t c);   // \w of patterns

/// A set of characters. Sets are made at their first use.
using CharacterSet = bool (*)(char32_t);
/// The set of a Unicode category, "L", "Lu" …, or null if it is not known here.
CharacterSet category(const std::string& name);

/// The lower case of one character.
Points lower_case_of(char32_t c);

}  // namespace fit::unicode
