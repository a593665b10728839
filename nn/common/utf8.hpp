#pragma once
#include <cstddef>
#include <string>

namespace fit::utf8 {

/// Whether a byte is the first byte of a character.
inline bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

/// The number of bytes of the character at text[at], or 0 if it is not well-formed UTF-8 (RFC 3629). Overlong forms,
/// surrogates and code points above U+10FFFF are not well-formed.
std::size_t sequence_length(const std::string& text, std::size_t at);

/// Reads the character at text[at] and moves `at` behind it. If it is not well-formed, returns U+FFFD and moves `at` by
/// one byte.
char32_t next(const std::string& text, std::size_t& at);

}  // namespace fit::utf8
