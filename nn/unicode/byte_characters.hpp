#pragma once
#include <string>

/// GPT-2's files write a byte as a printable character: itself, or the next free one from U+0100 on.
namespace fit::unicode {

char32_t character_of_byte(unsigned char byte);
/// The byte of such a character; -1 if it is none.
int byte_of_character(char32_t c);
/// Bytes as such characters.
std::string characters_of_bytes(const std::string& bytes);
/// The bytes of a token that is made of such characters; other tokens as they are.
std::string bytes_of_token(const std::string& token);

}  // namespace fit::unicode
