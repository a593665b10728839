#include "io/kind.hpp"

#include <algorithm>

#include "io/stored.hpp"
#include "io/zip.hpp"

namespace fit::io {

FileKind kind_of(InputFile& file) {
  char b[8] = {};
  file.read(b, std::min<std::int64_t>(sizeof b, file.left()));
  file.seek(0);
  if (b[0] == 'P' && b[1] == 'K' && b[2] == 5 && b[3] == 6) return FileKind::zip;  // an empty archive
  // .safetensors begins with the length of its header in 8 bytes, and a header is far below 4 GB.
  if (file.size() >= 8 && std::all_of(b + 4, b + 8, [](char c) { return c == 0; })) return FileKind::safetensors;
  if (b[0] == 'P' && b[1] == 'K' && b[2] < '\x09' && b[3] < '\x09') return FileKind::zip;
  if (b[0] == '\x80' && b[1] >= 1 && b[1] <= 5) return FileKind::pickle;  // the opcode PROTO and its version
  if (b[0] == '{') return FileKind::json;
  if (std::equal(b, b + 6, "\x93NUMPY")) return FileKind::npy;
  // The length would be far above 4 GB, so it is no .safetensors file: eight printable characters are text.
  const auto printable = [](char c) { return (c >= ' ' && c != 0x7f) || c == '\n' || c == '\r' || c == '\t'; };
  if (file.size() >= 8 && std::all_of(b, b + 8, printable)) return FileKind::text;
  return FileKind::safetensors;
}

void refuse_pickle(const InputFile& file) {
  file.fail(
      "it is a pickle, as torch.save() writes it: reading one runs whatever code it holds, and this library doesn't. "
      "Convert it in Python (where it holds more than the tensors, take state_dict out of that):\n"
      "  import torch, safetensors.torch\n"
      "  state = torch.load(\"model.pt\", map_location=\"cpu\", weights_only=True)\n"
      "  safetensors.torch.save_file({k: v.clone().contiguous() for k, v in state.items()}, \"model.safetensors\")");
}

namespace {

// Whether a file that kind_of() takes for .safetensors begins as one does: kind_of() takes damaged files for one, too.
bool begins_with_header(InputFile& file) {
  char b[9] = {};
  if (file.size() < static_cast<std::int64_t>(sizeof b)) return false;
  file.read(b, sizeof b);
  file.seek(0);
  return b[8] == '{' && std::all_of(b + 4, b + 8, [](char c) { return c == 0; });
}

}  // namespace

void refuse_others(InputFile& file, FileKind expected) {
  file.seek(0);
  const FileKind kind = kind_of(file);
  if (kind == expected) return;
  if (kind == FileKind::pickle) refuse_pickle(file);
  if (kind == FileKind::npy) file.fail("it is an .npy file: load_npy() reads it");
  if (kind == FileKind::text) file.fail("it is text: the readers of fit/nn/data/readers.hpp read text");
  if (kind == FileKind::zip) {
    if (holds_pickle(ZipReader(file))) refuse_pickle(file);
    file.fail("it is a zip file: if it is an .npz, load_npz() reads it");
  }
  if (kind == FileKind::safetensors && begins_with_header(file))
    file.fail("it is a .safetensors file: load_safetensors() reads it");
}

std::vector<Stored> stored(const StateDict& state) {
  std::vector<Stored> all;
  for (const auto& [name, x] : state) {
    if (x.defined())
      all.push_back({name, x.shape(), x.dtype(), [x = x] { return x; }});
    else
      all.push_back({name, {}, DType::float32, nullptr});
  }
  return all;
}

}  // namespace fit::io
