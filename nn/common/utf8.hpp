#pragma once
#include <cstddef>
#include <string>

namespace fit::utf8 {

/// Whether a byte begins a character, and does not go on with one.
inline bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

/// Bytes of the character that begins at text[at]; 0 if what is there is not well-formed (RFC 3629): neither overlong
/// forms nor surrogates nor what is beyond U+10FFFF.
std::size_t sequence_length(const std::string& text, std::size_t at);

}  // namespace fit::utf8
