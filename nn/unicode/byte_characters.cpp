#include "unicode/byte_characters.hpp"

#include <array>
#include <unordered_map>

#include "unicode/characters.hpp"

namespace fit::unicode {

char32_t character_of_byte(unsigned char byte) {
  static const std::array<char32_t, 256> all = [] {
    std::array<char32_t, 256> characters;
    char32_t next = 0x100;
    for (char32_t b = 0; b < 256; ++b)
      characters[b] = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE ? b : next++;
    return characters;
  }();
  return all[byte];
}

int byte_of_character(char32_t c) {
  static const std::unordered_map<char32_t, int> all = [] {
    std::unordered_map<char32_t, int> bytes;
    for (int b = 0; b < 256; ++b) bytes[character_of_byte(static_cast<unsigned char>(b))] = b;
    return bytes;
  }();
  const auto found = all.find(c);
  return found == all.end() ? -1 : found->second;
}

std::string characters_of_bytes(const std::string& bytes) {
  std::string text;
  for (const char b : bytes) append(text, character_of_byte(static_cast<unsigned char>(b)));
  return text;
}

std::string bytes_of_token(const std::string& token) {
  std::string bytes;
  for (const char32_t c : points_of("bytes_of_token", token)) {
    const int byte = byte_of_character(c);
    if (byte < 0) return token;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace fit::unicode
