#include "fit/io/npz.hpp"

#include <zlib.h>

#include <unordered_set>

#include "base/affixes.hpp"
#include "io/atomic_file.hpp"
#include "io/kind.hpp"
#include "io/npy.hpp"
#include "io/stored.hpp"
#include "io/zip.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

const std::string ending = ".npy";
constexpr std::size_t longest_npz_name = 4096;

}  // namespace

std::vector<io::Stored> io::open_npz(const std::string& path) {
  constexpr const char* op = "load_npz";
  io::InputFile file(op, path);
  io::refuse_others(file, io::FileKind::zip);
  if (io::kind_of(file) != io::FileKind::zip) file.fail("it is no .npz file: expected a zip file");
  io::ZipReader zip(file);
  if (io::holds_pickle(zip)) io::refuse_pickle(file);
  std::vector<Stored> all;
  std::unordered_set<std::string> names;
  for (const io::ZipReader::Member& m : zip.members()) {
    if (m.name == ending || !ends_with(m.name, ending))
      file.fail("member '", io::shown(m.name), "' is no array: expected names that end with .npy");
    const std::string name = m.name.substr(0, m.name.size() - ending.size());
    if (!names.insert(name).second) file.fail("the array '", io::shown(name), "' is there twice");
    io::InputFile member(op, path + ", array '" + io::shown(name) + "'", zip.read(m));
    const NpyArray x = read_npy(member);
    all.push_back({name, x.values.shape(), x.values.dtype(), [values = x.values] { return values; }, x.file_dtype});
  }
  return all;
}

StateDict load_npz(const std::string& path) {
  StateDict all;
  for (const io::Stored& x : io::open_npz(path)) all.emplace_back(x.name, x.read());
  return all;
}

void save_npz(const std::string& path, const StateDict& tensors) {
  constexpr const char* op = "save_npz";
  std::unordered_set<std::string> names;
  std::int64_t bytes = 0;
  for (const auto& [name, x] : tensors) {
    if (name.empty() || name.size() > longest_npz_name)
      check::fail(op, "the name '", io::shown(name), "' has ", name.size(), " bytes: it must have 1 to ",
                  longest_npz_name);
    if (!names.insert(name).second) check::fail(op, "the name '", io::shown(name), "' is there twice");
    if (!x.defined()) check::fail(op, "the tensor '", io::shown(name), "' is undefined");
    io::expect_npy_type(op, "the tensor '" + io::shown(name) + '\'', x);
    bytes += x.numel() * size_of(x.dtype()) + 2 * static_cast<std::int64_t>(name.size()) + 1024;
  }
  if (bytes > UINT32_MAX || tensors.size() >= 0xFFFF)
    check::fail(op, tensors.size(), " tensors of ", bytes, " bytes: an .npz has at most 65534 and 4 GB here; ",
                "save_safetensors() has no such limit");
  io::AtomicFile out(op, path);
  std::vector<io::ZipEntry> entries;
  std::uint32_t at = 0;
  for (const auto& [name, x] : tensors) {
    const std::string header = io::npy_header(x);
    const auto size = static_cast<std::size_t>(x.numel() * size_of(x.dtype()));
    uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
    if (size > 0) crc = crc32_z(crc, static_cast<const Bytef*>(x.raw()), size);
    entries.push_back(
        {name + ending, static_cast<std::uint32_t>(crc), static_cast<std::uint32_t>(header.size() + size), at});
    const std::string local = io::zip_header(entries.back());
    out.write(local.data(), local.size());
    out.write(header.data(), header.size());
    out.write(x.raw(), size);
    at += static_cast<std::uint32_t>(local.size() + header.size() + size);
  }
  const std::string end = io::zip_directory(entries, at);
  out.write(end.data(), end.size());
  out.commit();
}

}  // namespace fit
