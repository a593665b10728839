#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
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
struct Script {
  const char* name;
  Table ranges;
};
extern const Table letters, numbers, spaces, punctuation, control, nonspacing, combining, numeric, word, regex_word,
    grapheme_extends, grapheme_prepends, grapheme_controls, lower_case, lower_case_several, categories;
extern const char category_names[];
extern const Script scripts[];
extern const std::size_t number_of_scripts;
}  // namespace tables

using Points = std::vector<char32_t>;

/// Throws Error in the name of `op` if the text is not UTF-8.
void check_utf8(const char* op, const std::string& text);
/// The characters of a text. Throws the same.
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

/// Whether a grapheme cluster goes on from one character to the next, by the rules of Unicode Standard Annex 29 without
/// those for Hangul, conjuncts, emoji and flags (GB6 to GB8, GB9c to GB13), whose clusters have more than five bytes
/// (but the last part of one, alone, may have fewer).
bool is_joined(char32_t character, char32_t next);

/// A set of characters. It lives as long as the program.
using CharacterSet = std::function<bool(char32_t)>;
/// The set of a Unicode category, "L", "Lu" …, or of a script, "Han"; null if it is not known here.
CharacterSet category(const std::string& name);
/// The scripts that are known here.
std::string script_names();

/// The lower case of one character.
Points lower_case_of(char32_t c);

}  // namespace fit::unicode
