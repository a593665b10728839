#include "plot/figures/encode.hpp"

#include <zlib.h>

#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace fit::test::encode_test {

TEST_CASE("an embedded image is a PNG: its parts, their checksums, and what zlib gives back") {
  const std::string png = plot::indexed_png(3, 2, {0, 1, 1, 1, 0, 0}, {{255, 0, 0}, {0, 128, 255}});
  CHECK(png.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  std::vector<std::pair<std::string, std::string>> chunks;
  const auto u32 = [&](std::size_t at) {
    std::uint32_t v = 0;
    for (std::size_t k = 0; k < 4; ++k) v = v << 8 | static_cast<unsigned char>(png[at + k]);
    return v;
  };
  for (std::size_t at = 8; at < png.size(); at += 12 + u32(at)) {
    chunks.emplace_back(png.substr(at + 4, 4), png.substr(at + 8, u32(at)));
    const std::string covered = chunks.back().first + chunks.back().second;
    CHECK(u32(at + 8 + u32(at)) ==
          crc32(0, reinterpret_cast<const Bytef*>(covered.data()), static_cast<uInt>(covered.size())));
  }
  REQUIRE(chunks.size() == 4);
  CHECK(chunks[0] == std::pair<std::string, std::string>("IHDR", {"\0\0\0\3\0\0\0\2\x08\3\0\0\0", 13}));
  CHECK(chunks[1] == std::pair<std::string, std::string>("PLTE", {"\xff\0\0\0\x80\xff", 6}));
  CHECK(chunks[3] == std::pair<std::string, std::string>("IEND", ""));
  std::string pixels(8, 'x');
  uLongf size = pixels.size();
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(&pixels[0]), &size,
                     reinterpret_cast<const Bytef*>(chunks[2].second.data()), chunks[2].second.size()) == Z_OK);
  CHECK(pixels == std::string("\0\0\1\1\0\1\0\0", 8));
}

TEST_CASE("base64 is RFC 4648's") {
  const std::vector<std::pair<std::string, std::string>> vectors{{"", ""},
                                                                 {"f", "Zg=="},
                                                                 {"fo", "Zm8="},
                                                                 {"foo", "Zm9v"},
                                                                 {"foob", "Zm9vYg=="},
                                                                 {"fooba", "Zm9vYmE="},
                                                                 {"foobar", "Zm9vYmFy"},
                                                                 {"\xff\xfe\x80", "//6A"}};
  for (const auto& [bytes, text] : vectors) CHECK(plot::base64(bytes) == text);
}

}  // namespace fit::test::encode_test
