#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/input_file.hpp"

namespace fit::io {

/// Reads a zip file with stored or deflated members (PKWARE's APPNOTE.TXT 6.3.10, including 64-bit sizes). Sizes are
/// compared with the file's length before memory is allocated. Throws FileError with the file's name.
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
  /// The member's bytes, after checking their CRC.
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

/// The records of a zip file: a member's local header, its directory entry, and the end of the directory.
struct ZipEntry {
  std::string name;
  std::uint32_t crc, size, header;
};
std::string zip_header(const ZipEntry& entry);
std::string zip_directory(const std::vector<ZipEntry>& entries, std::uint32_t begin);

}  // namespace fit::io
