// The elements of GGUF files, block by block: ggml's quants (ggml/src/ggml-quants.c).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "fit/base/bfloat16.hpp"
#include "io/gguf.hpp"
#include "io/half.hpp"

namespace fit::io {
namespace {

float half_at(const unsigned char* p) {
  std::uint16_t h;
  std::memcpy(&h, p, sizeof h);
  return half_to_float(h);
}

void read_f32(const unsigned char* from, float* to) { std::memcpy(to, from, sizeof *to); }
void write_f32(const float* from, unsigned char* to) { std::memcpy(to, from, sizeof *from); }
void read_f16(const unsigned char* from, float* to) { *to = half_at(from); }
void write_f16(const float* from, unsigned char* to) {
  const std::uint16_t h = float_to_half(*from);
  std::memcpy(to, &h, sizeof h);
}
void read_bf16(const unsigned char* from, float* to) {
  BFloat16 b;
  std::memcpy(&b, from, sizeof b);
  *to = static_cast<float>(b);
}
void write_bf16(const float* from, unsigned char* to) {
  const BFloat16 b(*from);
  std::memcpy(to, &b, sizeof b);
}

// A float16 scale d and 32 int8 numbers.
void read_q8_0(const unsigned char* from, float* to) {
  const float d = half_at(from);
  for (int i = 0; i < 32; ++i) to[i] = d * static_cast<float>(static_cast<signed char>(from[2 + i]));
}
void write_q8_0(const float* from, unsigned char* to) {
  float greatest = 0;
  for (int i = 0; i < 32; ++i) greatest = std::max(greatest, std::abs(from[i]));
  const float d = greatest / 127, inverse = d < std::numeric_limits<float>::min() ? 0 : 1 / d;
  write_f16(&d, to);
  for (int i = 0; i < 32; ++i)
    to[2 + i] = static_cast<unsigned char>(static_cast<signed char>(std::round(from[i] * inverse)));
}

// A float16 scale d and 32 numbers of 4 bits, q - 8.
void read_q4_0(const unsigned char* from, float* to) {
  const float d = half_at(from);
  for (int i = 0; i < 16; ++i) {
    to[i] = d * static_cast<float>((from[2 + i] & 15) - 8);
    to[16 + i] = d * static_cast<float>((from[2 + i] >> 4) - 8);
  }
}

// 8 groups of 32 numbers of 4 bits: d scale q - dmin min. Scales and mins have 6 bits each, in 12 bytes.
void read_q4_k(const unsigned char* from, float* to) {
  const float d = half_at(from), dmin = half_at(from + 2);
  const unsigned char *const s = from + 4, *const q = from + 16;
  for (int g = 0; g < 8; ++g) {
    const int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
    const int min = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 6) << 4;
    for (int i = 0; i < 32; ++i) {
      const int value = q[g / 2 * 32 + i] >> (g % 2 * 4) & 15;
      to[g * 32 + i] = d * static_cast<float>(scale) * static_cast<float>(value) - dmin * static_cast<float>(min);
    }
  }
}

// 16 groups of 16 numbers of 6 bits, d scale (q - 32): 128 bytes of low bits, 64 of high bits, 16 scales, d.
void read_q6_k(const unsigned char* from, float* to) {
  const unsigned char *const low = from, *const high = from + 128, *const scales = from + 192;
  const float d = half_at(from + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
    const int four = low[half * 64 + quarter % 2 * 32 + at] >> (quarter / 2 * 4) & 15;
    const int two = high[half * 32 + at] >> (quarter * 2) & 3;
    const auto scale = static_cast<float>(static_cast<signed char>(scales[i / 16]));
    to[i] = d * scale * static_cast<float>((four | two << 4) - 32);
  }
}

constexpr GGMLType ggml_types[] = {
    {0, "F32", 1, 4, read_f32, write_f32},      {1, "F16", 1, 2, read_f16, write_f16},
    {30, "BF16", 1, 2, read_bf16, write_bf16},  {8, "Q8_0", 32, 34, read_q8_0, write_q8_0},
    {2, "Q4_0", 32, 18, read_q4_0, nullptr},    {12, "Q4_K", 256, 144, read_q4_k, nullptr},
    {14, "Q6_K", 256, 210, read_q6_k, nullptr},
};

template <class Is>
const GGMLType* first(const Is& is) {
  const auto* const found = std::find_if(std::begin(ggml_types), std::end(ggml_types), is);
  return found == std::end(ggml_types) ? nullptr : found;
}

}  // namespace

const GGMLType* find_ggml_type(const std::string& name) {
  return first([&](const GGMLType& t) { return name == t.name; });
}
const GGMLType* find_ggml_type(std::uint32_t id) {
  return first([&](const GGMLType& t) { return id == t.id; });
}

}  // namespace fit::io
