#include "plot/figures/encode.hpp"

#include <zlib.h>

#include <algorithm>

#include "tensor/check.hpp"

namespace fit::plot {
namespace {

void append_u32(std::string& out, std::uint32_t v) {
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(v >> shift & 0xff);
}

const Bytef* bytes_of(const std::string& s) { return reinterpret_cast<const Bytef*>(s.data()); }

void append_chunk(std::string& png, const std::string& type, const std::string& data) {
  append_u32(png, static_cast<std::uint32_t>(data.size()));
  const std::string body = type + data;
  png += body;
  append_u32(png, static_cast<std::uint32_t>(crc32_z(0, bytes_of(body), body.size())));
}

}  // namespace

std::string deflated(const std::string& bytes) {
  std::string out(compressBound(bytes.size()), '\0');
  uLongf size = out.size();
  // LCOV_EXCL_START: fails only without memory.
  if (compress2(reinterpret_cast<Bytef*>(&out[0]), &size, bytes_of(bytes), bytes.size(), Z_DEFAULT_COMPRESSION) != Z_OK)
    check::fail("plot", bytes.size(), " bytes can't be compressed: there is no memory left");
  // LCOV_EXCL_STOP
  out.resize(size);
  return out;
}

std::string base64(const std::string& bytes) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string s;
  s.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k) word = word << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) s += k <= n ? alphabet[word >> (18 - 6 * k) & 63] : '=';
  }
  return s;
}

std::string indexed_png(std::int64_t width, std::int64_t height, const std::vector<std::uint8_t>& indices,
                        const std::vector<Rgb>& colors) {
  std::string header, palette, rows;
  append_u32(header, static_cast<std::uint32_t>(width));
  append_u32(header, static_cast<std::uint32_t>(height));
  header += std::string{8, 3, 0, 0, 0};  // 8 bits, a palette, deflate, adaptive filters, not interlaced
  for (const Rgb c : colors)
    for (const std::uint8_t v : {c.r, c.g, c.b}) palette += static_cast<char>(v);
  for (std::int64_t row = 0; row < height; ++row) {
    rows += '\0';  // not filtered
    rows.append(indices.begin() + row * width, indices.begin() + (row + 1) * width);
  }
  std::string out = "\x89PNG\r\n\x1a\n";
  append_chunk(out, "IHDR", header);
  append_chunk(out, "PLTE", palette);
  append_chunk(out, "IDAT", deflated(rows));
  append_chunk(out, "IEND", "");
  return out;
}

}  // namespace fit::plot
