#include "tokenizer/charsmap.hpp"

#include <algorithm>

#include "common/utf8.hpp"
#include "tensor/check.hpp"
#include "unicode/characters.hpp"

namespace fit::text {
namespace {

constexpr const char* charsmap_op = "Tokenizer";

std::string bytes_of_base64(const std::string& text) {
  static const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t end = std::min(text.find('='), text.size());
  if (text.size() % 4 != 0 || text.size() - end > 2 || text.find_first_not_of('=', end) != std::string::npos)
    check::fail(charsmap_op, "precompiled_charsmap has ", text.size(),
                " characters: expected base64, filled up with =");
  std::string bytes;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < end; ++i) {
    const std::size_t digit = digits.find(text[i]);
    if (digit == std::string::npos)
      check::fail(charsmap_op, "precompiled_charsmap has '", text[i], "' at character ", i, ": expected base64");
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 > 0) bytes += static_cast<char>(bits >> (6 - 2 * (i % 4)) & 0xFF);
  }
  return bytes;
}

// A unit of the array: the byte that leads to it, whether a text ends there, and where its children are.
std::uint32_t label(std::uint32_t unit) { return unit & (1U << 31 | 0xFF); }
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::size_t offset(std::uint32_t unit) { return std::size_t{unit >> 10} << ((unit & 1U << 9) >> 6); }

}  // namespace

Charsmap::Charsmap(const std::string& base64) {
  const std::string bytes = bytes_of_base64(base64);
  const auto number = [&](std::size_t at) {
    std::uint32_t n = 0;
    for (std::size_t i = 4; i-- > 0;) n = n << 8 | static_cast<unsigned char>(bytes[at + i]);
    return n;
  };
  const std::size_t array = bytes.size() < 4 ? 0 : number(0) / 4;
  if (bytes.size() < 4 || array > (bytes.size() - 4) / 4)
    check::fail(charsmap_op, "precompiled_charsmap has ", bytes.size(),
                " bytes, too few for its array: read the file again");
  for (std::size_t i = 0; i < array; ++i) units_.push_back(number(4 + 4 * i));
  texts_ = bytes.substr(4 + 4 * array);
  unicode::check_utf8(charsmap_op, texts_);
}

std::optional<std::vector<char32_t>> Charsmap::replacement(const std::string& piece) const {
  std::size_t node = offset(unit(0));
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) break;
    node ^= byte;
    const std::uint32_t found = unit(node);
    if (label(found) != byte) break;
    node ^= offset(found);
    if (!has_leaf(found)) continue;
    const std::size_t begin = unit(node) & ~(1U << 31);
    if (begin > texts_.size()) return std::nullopt;
    return characters(texts_.substr(begin, texts_.find('\0', begin) - begin));
  }
  return std::nullopt;
}

bool Charsmap::add_replaced(const std::string& piece, std::size_t characters, unicode::Changes& changes) const {
  const auto found = replacement(piece);
  if (!found) return false;
  for (std::size_t i = 0; i < found->size(); ++i) changes.push_back({(*found)[i], i < characters ? 0 : 1});
  // The last stands for those that go. Without one, it is the one before.
  if (found->size() < characters && !changes.empty())
    changes.back().added -= static_cast<int>(characters - found->size());
  return true;
}

void Charsmap::normalize(Normalized& text) const {
  const std::string& given = text.text();
  const std::vector<char32_t> points = characters(given);
  unicode::Changes changes;
  bool changed = false;
  for (std::size_t i = 0, byte = 0; i < points.size();) {
    std::size_t end = i, length = 0;
    for (bool goes_on = true; goes_on; ++end) {
      length += utf8::size(points[end]);
      goes_on = end + 1 < points.size() && unicode::is_joined(points[end], points[end + 1]);
    }
    if (length < 6 && add_replaced(given.substr(byte, length), end - i, changes)) {
      changed = true;
    } else {
      for (std::size_t k = i; k < end; ++k) {
        const bool replaced = add_replaced(utf8_of({points[k]}), 1, changes);
        if (!replaced) changes.push_back({points[k], 0});
        changed = changed || replaced;
      }
    }
    byte += length;
    i = end;
  }
  if (changed) text.transform(changes);
}

}  // namespace fit::text
