#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Character classes of the reference tokenizers, by code point.
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

bool is_punctuation(char32_t c);  // BERT splits these into separate words
/// BERT's normalisation of c: lower case without accents, nothing for control characters and accents, a space for white
/// space, spaces around an ideograph.
void append_for_bert(Points& to, char32_t c);

}  // namespace fit::unicode
