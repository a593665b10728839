#pragma once
#include <cstddef>
#include <string>

namespace fit::utf8 {

/// Whether a byte is the first byte of a character.
inline bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

/// The number of bytes of the character at text[at], or 0 if it is not well-formed UTF-8 (RFC 3629). Overlong forms,
/// surrogates and code points above U+10FFFF are not well-formed.
std::size_t sequence_length(const std::string& text, std::size_t at);

/// The bytes of the character at text[at]; one byte if it is not well-formed.
std::string character(const std::string& text, std::size_t at);

char32_t next_beyond_ascii(const std::string& text, std::size_t& at);
/// Reads the character at text[at] and moves `at` behind it. If it is not well-formed, returns U+FFFD and moves `at` by
/// one byte.
inline char32_t next(const std::string& text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  return lead < 0x80 ? ++at, lead : next_beyond_ascii(text, at);
}

/// The number of bytes of a character.
inline std::size_t size(char32_t c) { return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4; }

}  // namespace fit::utf8
