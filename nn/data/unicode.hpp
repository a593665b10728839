#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// What the reference tokenizers do with a character (code point).
namespace fit::unicode {

namespace tables {
extern const std::vector<std::int32_t> letters, numbers, spaces, punctuation, chinese, gone, blank, single, several;
}

using Points = std::vector<char32_t>;

/// Throws Error in the name of `op` if the text is not UTF-8.
Points points_of(const char* op, const std::string& text);
void append(std::string& text, char32_t point);

bool is_letter(char32_t c);  // \p{L} of GPT-2's pattern
bool is_number(char32_t c);  // \p{N}
bool is_space(char32_t c);   // \s

bool is_punctuation(char32_t c);  // that stands alone for BERT
/// What BERT reads in place of c: lower case without accents; nothing for control characters and accents; a blank for
/// white space; an ideograph between blanks.
void append_for_bert(Points& to, char32_t c);

}  // namespace fit::unicode
