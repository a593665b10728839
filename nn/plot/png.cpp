// An indexed PNG (ISO/IEC 15948) whose deflate stream is stored, not compressed: it takes no library.
#include <algorithm>

#include "plot/svg.hpp"

namespace fit::plot {
namespace {

void append_u32(std::string& out, std::uint32_t v) {
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(v >> shift & 0xff);
}

std::uint32_t crc32(const std::string& data) {
  std::uint32_t c = 0xffffffff;
  for (const char byte : data) {
    c ^= static_cast<unsigned char>(byte);
    for (int k = 0; k < 8; ++k) c = (c >> 1) ^ (c & 1 ? 0xedb88320u : 0u);
  }
  return ~c;
}

std::uint32_t adler32(const std::string& data) {
  std::uint32_t a = 1, b = 0;
  for (const char byte : data) {
    a = (a + static_cast<unsigned char>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

void append_chunk(std::string& png, const std::string& type, const std::string& data) {
  append_u32(png, static_cast<std::uint32_t>(data.size()));
  png += type + data;
  append_u32(png, crc32(type + data));
}

std::string zlib_stored(const std::string& data) {
  constexpr std::size_t block = 65535;
  std::string z = "\x78\x01";
  for (std::size_t at = 0; at < data.size(); at += block) {
    const std::size_t n = std::min(block, data.size() - at);
    z += static_cast<char>(at + n == data.size());  // the last block
    for (const std::size_t v : {n, ~n}) {
      z += static_cast<char>(v & 0xff);
      z += static_cast<char>(v >> 8 & 0xff);
    }
    z += data.substr(at, n);
  }
  append_u32(z, adler32(data));
  return z;
}

std::string base64(const std::string& data) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string s;
  for (std::size_t i = 0; i < data.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, data.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k) word = word << 8 | (k < n ? static_cast<unsigned char>(data[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) s += k <= n ? alphabet[word >> (18 - 6 * k) & 63] : '=';
  }
  return s;
}

}  // namespace

std::string png_uri(std::int64_t width, std::int64_t height, const std::vector<std::uint8_t>& indices,
                    const std::vector<Rgb>& colors) {
  std::string header, table, pixels;
  append_u32(header, static_cast<std::uint32_t>(width));
  append_u32(header, static_cast<std::uint32_t>(height));
  header += std::string{8, 3, 0, 0, 0};  // 8 bits, indexed, deflate, adaptive filters, not interlaced
  for (const Rgb c : colors)
    for (const std::uint8_t v : {c.r, c.g, c.b}) table += static_cast<char>(v);
  for (std::int64_t row = 0; row < height; ++row) {
    pixels += '\0';  // no filter
    pixels.append(indices.begin() + row * width, indices.begin() + (row + 1) * width);
  }
  std::string png = "\x89PNG\r\n\x1a\n";
  append_chunk(png, "IHDR", header);
  append_chunk(png, "PLTE", table);
  append_chunk(png, "IDAT", zlib_stored(pixels));
  append_chunk(png, "IEND", "");
  return "data:image/png;base64," + base64(png);
}

}  // namespace fit::plot
