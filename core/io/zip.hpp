#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/input_file.hpp"

namespace fit::io {

/// What a zip file holds, stored or deflated (PKWARE's APPNOTE.TXT 6.3.10, with its 64-bit sizes). Nothing of the file
/// is trusted: sizes are held against the file's length before memory is taken. Throws FileError in the name of the
/// file.
class ZipReader {
 public:
  struct Member {
    std::string name;
    std::uint32_t crc = 0;
    std::uint64_t packed = 0, size = 0, header = 0;  // bytes in the file, bytes of the member, where its header begins
    bool deflated = false;
  };

  explicit ZipReader(InputFile& file);
  const std::vector<Member>& members() const { return members_; }
  /// Its bytes, once their checksum is seen to be right.
  std::string read(const Member& member);

 private:
  struct Directory {
    std::uint64_t count, bytes, begin;
  };
  Directory find_directory();
  Directory find_directory_64(std::uint64_t end_record);
  std::string bytes(std::uint64_t at, std::uint64_t n);

  InputFile& file_;
  std::vector<Member> members_;
};

/// Whether a zip file is what torch.save() writes.
bool holds_pickle(const ZipReader& zip);

/// The bytes that a zip file has for a member, in front of its data and in its directory; and its end.
struct ZipEntry {
  std::string name;
  std::uint32_t crc, size, header;
};
std::string zip_header(const ZipEntry& entry);
std::string zip_directory(const std::vector<ZipEntry>& entries, std::uint32_t begin);

}  // namespace fit::io
