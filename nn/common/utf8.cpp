#include "common/utf8.hpp"

#include <algorithm>

namespace fit::utf8 {

std::size_t sequence_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[at + k]); };
  const unsigned lead = byte(0);
  const std::size_t n = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (at + n > text.size()) return 0;
  for (std::size_t k = 1; k < n; ++k)
    if (starts_code_point(text[at + k])) return 0;
  // overlong forms, surrogates, above U+10FFFF
  const bool out_of_range = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) >= 0xa0) ||
                            (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) >= 0x90);
  return out_of_range ? 0 : n;
}

std::string character(const std::string& text, std::size_t at) {
  return text.substr(at, std::max<std::size_t>(1, sequence_length(text, at)));
}

char32_t next_beyond_ascii(const std::string& text, std::size_t& at) {
  const std::size_t n = sequence_length(text, at);
  const auto lead = static_cast<unsigned char>(text[at++]);
  char32_t c = n == 0 ? 0xfffd : lead & (0x7fu >> n);
  for (std::size_t k = 1; k < n; ++k) c = c << 6 | (static_cast<unsigned char>(text[at++]) & 0x3f);
  return c;
}

}  // namespace fit::utf8
