#include "support/sha256.hpp"

#include <algorithm>
#include <cstring>

namespace fit::test {
namespace {

// The first 32 bits of the fractions of the cube roots of the first 64 primes.
constexpr std::uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t rotated_right(std::uint32_t x, int n) { return x >> n | x << (32 - n); }

}  // namespace

void Sha256::add(const void* bytes, std::size_t n) {
  const auto* from = static_cast<const unsigned char*>(bytes);
  while (n > 0) {
    const std::size_t filled = size_ % 64, part = std::min(n, 64 - filled);
    std::memcpy(block_.data() + filled, from, part);
    from += part, n -= part, size_ += part;
    if (size_ % 64 == 0) compress();
  }
}

void Sha256::compress() {
  std::uint32_t w[64];
  for (std::size_t i = 0; i < 16; ++i)
    w[i] = static_cast<std::uint32_t>(block_[4 * i]) << 24 | static_cast<std::uint32_t>(block_[4 * i + 1]) << 16 |
           static_cast<std::uint32_t>(block_[4 * i + 2]) << 8 | block_[4 * i + 3];
  for (std::size_t i = 16; i < 64; ++i)
    w[i] = w[i - 16] + (rotated_right(w[i - 15], 7) ^ rotated_right(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
           (rotated_right(w[i - 2], 17) ^ rotated_right(w[i - 2], 19) ^ w[i - 2] >> 10);
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t t = h + (rotated_right(e, 6) ^ rotated_right(e, 11) ^ rotated_right(e, 25)) +
                            ((e & f) ^ (~e & g)) + sha256_constants[i] + w[i];
    const std::uint32_t u =
        (rotated_right(a, 2) ^ rotated_right(a, 13) ^ rotated_right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t, d = c, c = b, b = a, a = t + u;
  }
  const std::uint32_t more[] = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += more[i];
}

}  // namespace fit::test
