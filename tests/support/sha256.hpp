#pragma once
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace fit::test {

/// SHA-256 (FIPS 180-4) of the bytes that were added.
class Sha256 {
 public:
  void add(const void* bytes, std::size_t n);
  /// 64 hexadecimal digits. Nothing can be added afterwards.
  std::string digits() {
    const std::uint64_t bits = size_ * 8;
    const unsigned char one = 0x80, zero = 0;
    add(&one, 1);
    while (size_ % 64 != 56) add(&zero, 1);
    for (int shift = 56; shift >= 0; shift -= 8) {
      const auto byte = static_cast<unsigned char>(bits >> shift);
      add(&byte, 1);
    }
    std::string text;
    for (const std::uint32_t h : state_) {
      char word[9];
      std::snprintf(word, sizeof word, "%08x", h);
      text += word;
    }
    return text;
  }

 private:
  void compress();

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> block_{};
  std::uint64_t size_ = 0;
};

}  // namespace fit::test
