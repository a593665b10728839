#include "io/zip.hpp"

#include <zlib.h>

#include <algorithm>

#include "base/affixes.hpp"

namespace fit::io {
namespace {

constexpr std::uint32_t local_mark = 0x04034b50, central_mark = 0x02014b50, end_mark = 0x06054b50,
                        locator_64_mark = 0x07064b50, end_64_mark = 0x06064b50;
constexpr std::uint64_t local_bytes = 30, central_bytes = 46, end_bytes = 22, locator_64_bytes = 20, end_64_bytes = 56;
constexpr std::uint64_t longest_comment = 0xFFFF;
constexpr std::uint64_t in_extra = 0xFFFFFFFF;  // the value is in the extra field
constexpr std::uint64_t deflate_ratio = 1032;   // the maximum compression ratio of deflate (zlib's technical details)

// Reads a little-endian number of n bytes.
std::uint64_t number(const std::string& s, std::size_t at, int n) {
  std::uint64_t v = 0;
  for (int k = n - 1; k >= 0; --k) v = v << 8 | static_cast<unsigned char>(s[at + static_cast<std::size_t>(k)]);
  return v;
}

void put(std::string& s, std::uint64_t v, int n) {
  for (int k = 0; k < n; ++k) s += static_cast<char>(v >> (8 * k) & 0xFF);
}

// Extra field 1 holds the sizes that don't fit 32 bits, in this order.
void widen(const InputFile& file, ZipReader::Member& m, const std::string& extra) {
  if (m.size != in_extra && m.packed != in_extra && m.header != in_extra) return;
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const std::size_t id = number(extra, at, 2), length = number(extra, at + 2, 2);
    std::size_t next = at + 4;
    at = next + length;
    if (id != 1 || at > extra.size()) continue;
    for (std::uint64_t* v : {&m.size, &m.packed, &m.header}) {
      if (*v != in_extra) continue;
      if (next + 8 > at) break;
      *v = number(extra, next, 8);
      next += 8;
    }
  }
  if (m.size == in_extra || m.packed == in_extra || m.header == in_extra)
    file.fail("member '", shown(m.name), "': its 64-bit sizes are not there");
}

}  // namespace

std::string ZipReader::bytes(std::uint64_t at, std::uint64_t n) {
  const auto size = static_cast<std::uint64_t>(file_.size());
  if (at > size || n > size - at)
    file_.fail("expected ", n, " bytes at byte ", at, " of a file of ", size, " (is it truncated?)");
  std::string s(n, '\0');
  file_.seek(static_cast<std::int64_t>(at));
  file_.read(s.data(), static_cast<std::int64_t>(n));
  return s;
}

ZipReader::Directory ZipReader::find_directory() {
  const auto size = static_cast<std::uint64_t>(file_.size());
  const std::uint64_t tail = std::min(size, end_bytes + longest_comment);
  const std::string end = bytes(size - tail, tail);
  for (std::uint64_t at = tail < end_bytes ? 0 : tail - end_bytes + 1; at-- > 0;) {
    if (number(end, at, 4) != end_mark || number(end, at + 20, 2) != tail - at - end_bytes) continue;
    const Directory d{number(end, at + 10, 2), number(end, at + 12, 4), number(end, at + 16, 4)};
    return d.count == 0xFFFF || d.bytes == in_extra || d.begin == in_extra ? find_directory_64(size - tail + at) : d;
  }
  file_.fail("it has no end of a zip file (is it truncated?)");
}

ZipReader::Directory ZipReader::find_directory_64(std::uint64_t end_record) {
  if (end_record < locator_64_bytes) file_.fail("its 64-bit directory is not there");
  const std::string locator = bytes(end_record - locator_64_bytes, locator_64_bytes);
  if (number(locator, 0, 4) != locator_64_mark) file_.fail("its 64-bit directory is not there");
  const std::string end = bytes(number(locator, 8, 8), end_64_bytes);
  if (number(end, 0, 4) != end_64_mark) file_.fail("its 64-bit directory is not where it is said to be");
  return {number(end, 32, 8), number(end, 40, 8), number(end, 48, 8)};
}

ZipReader::ZipReader(InputFile& file) : file_(file) {
  const Directory d = find_directory();
  const std::string all = bytes(d.begin, d.bytes);
  std::uint64_t at = 0, packed = 0;
  for (std::uint64_t i = 0; i < d.count; ++i) {
    if (all.size() - at < central_bytes || number(all, at, 4) != central_mark)
      file_.fail("entry ", i, " of its directory is damaged");
    const std::uint64_t flags = number(all, at + 8, 2), method = number(all, at + 10, 2);
    const std::uint64_t name = number(all, at + 28, 2), extra = number(all, at + 30, 2),
                        comment = number(all, at + 32, 2);
    if (all.size() - at - central_bytes < name + extra + comment)
      file_.fail("entry ", i, " of its directory is damaged");
    Member m;
    m.name = all.substr(at + central_bytes, name);
    m.crc = static_cast<std::uint32_t>(number(all, at + 16, 4));
    m.packed = number(all, at + 20, 4), m.size = number(all, at + 24, 4), m.header = number(all, at + 42, 4);
    widen(file_, m, all.substr(at + central_bytes + name, extra));
    m.deflated = method == 8;
    if (flags & 1) file_.fail("member '", shown(m.name), "' is encrypted");
    if (method != 0 && method != 8)
      file_.fail("member '", shown(m.name), "' is packed by method ", method, ": expected 0 (stored) or 8 (deflated)");
    // Members that overlap could unpack to far more than the file's length allows.
    const auto size = static_cast<std::uint64_t>(file_.size());
    if (m.packed > size || (packed += m.packed) > size)
      file_.fail("its members are said to have more bytes than the file's ", size);
    if (m.deflated ? m.size / deflate_ratio > m.packed : m.size != m.packed)
      file_.fail("member '", shown(m.name), "' is said to have ", m.size, " bytes in ", m.packed, " of the file");
    members_.push_back(std::move(m));
    at += central_bytes + name + extra + comment;
  }
}

std::string ZipReader::read(const Member& m) {
  const std::string header = bytes(m.header, local_bytes);
  if (number(header, 0, 4) != local_mark) file_.fail("member '", shown(m.name), "' is not where the directory says");
  const std::uint64_t begin = m.header + local_bytes + number(header, 26, 2) + number(header, 28, 2);
  std::string data = bytes(begin, m.packed);
  if (m.deflated) {
    std::string plain(m.size, '\0');
    z_stream z{};
    z.next_in = reinterpret_cast<Bytef*>(data.data());
    if (inflateInit2(&z, -15) != Z_OK) file_.fail("zlib can't be started");  // LCOV_EXCL_BR_LINE: no memory is left
    // Counts of zlib have 32 bits.
    std::uint64_t in = m.packed, out = 0;
    int status = Z_OK;
    while (status == Z_OK) {
      const auto some = [](std::uint64_t n) { return static_cast<uInt>(std::min<std::uint64_t>(n, 1u << 30)); };
      const uInt given = some(in), room = some(m.size - out);
      z.avail_in = given, z.avail_out = room, z.next_out = reinterpret_cast<Bytef*>(plain.data() + out);
      status = inflate(&z, Z_NO_FLUSH);
      in -= given - z.avail_in, out += room - z.avail_out;
    }
    inflateEnd(&z);
    if (status != Z_STREAM_END || out != m.size || in != 0)
      file_.fail("member '", shown(m.name), "' does not unpack to the ", m.size, " bytes that it is said to have");
    data = std::move(plain);
  }
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
  if (crc != m.crc) file_.fail("member '", shown(m.name), "' is damaged: its checksum is not that of its bytes");
  return data;
}

bool holds_pickle(const ZipReader& zip) {
  return std::any_of(zip.members().begin(), zip.members().end(),
                     [](const ZipReader::Member& m) { return ends_with(m.name, "data.pkl"); });
}

std::string zip_header(const ZipEntry& e) {
  std::string s;
  put(s, local_mark, 4);
  put(s, 20, 2);                   // version needed: 2.0
  put(s, 0x800, 2), put(s, 0, 2);  // names are UTF-8; stored
  put(s, 0, 2), put(s, 0x21, 2);   // 1980-01-01, so that equal tensors give equal files
  put(s, e.crc, 4), put(s, e.size, 4), put(s, e.size, 4);
  put(s, e.name.size(), 2), put(s, 0, 2);
  return s + e.name;
}

std::string zip_directory(const std::vector<ZipEntry>& entries, std::uint32_t begin) {
  std::string s;
  for (const ZipEntry& e : entries) {
    const std::string local = zip_header(e);
    put(s, central_mark, 4), put(s, 20, 2);                  // made by version 2.0
    s += local.substr(4, local_bytes - 4);                   // the same fields
    put(s, 0, 2), put(s, 0, 2), put(s, 0, 2), put(s, 0, 4);  // no comment, disk 0, no attributes
    put(s, e.header, 4);
    s += e.name;
  }
  const std::size_t bytes = s.size();
  put(s, end_mark, 4), put(s, 0, 2), put(s, 0, 2);
  put(s, entries.size(), 2), put(s, entries.size(), 2);
  put(s, bytes, 4), put(s, begin, 4), put(s, 0, 2);
  return s;
}

}  // namespace fit::io
