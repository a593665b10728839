#include "fuzz/targets.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "fit/base/memory.hpp"
#include "fit/io/npy.hpp"
#include "fit/io/npz.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/nn/chat/chat_template.hpp"
#include "fit/nn/data/readers.hpp"
#include "fit/nn/tokenizer/tokenizer.hpp"
#include "fit/nn/tokenizers/text.hpp"
#include "fit/nn/tokenizers/tokenizers.hpp"
#include "fit/nn/training/checkpoint.hpp"
#include "fit/nn/weights/gguf.hpp"
#include "hub/family.hpp"
#include "models/compared_options.hpp"

namespace fit::test {

MemoryFile::MemoryFile(const std::string& bytes) : file_(memfd_create("fuzz", 0)) {
  if (file_ < 0 || ::write(file_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error("no file in memory can be made");
}
MemoryFile::~MemoryFile() { ::close(file_); }
std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(file_); }

namespace {

void require(bool right, const char* what) {
  if (!right) throw std::logic_error(what);
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

// Both have the same names and tensors, in whatever order.
bool same(StateDict a, StateDict b) {
  const auto by_name = [](const auto& x, const auto& y) { return x.first < y.first; };
  std::sort(a.begin(), a.end(), by_name);
  std::sort(b.begin(), b.end(), by_name);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); });
}

// What save(path) writes, as load(path) gives it back. What was read once can always be written and read again.
template <class Save, class Load>
auto written_and_read(const Save& save, const Load& load) {
  struct Written {  // in memory: save() waits for a disk
    std::string path = "/dev/shm/fit-fuzz-" + std::to_string(getpid());
    ~Written() { ::unlink(path.c_str()); }
  } const file;
  try {
    save(file.path);
    return load(file.path);
  } catch (const FileError& e) {
    throw std::logic_error(std::string("what was read can't be written and read again: ") + e.what());
  }
}

void safetensors(const std::string& path) {
  const SafeTensors all = load_safetensors(path);
  const SafeTensors back =
      written_and_read([&](const std::string& file) { save_safetensors(file, all.tensors, all.metadata); },
                       [](const std::string& file) { return load_safetensors(file); });
  require(same(all.tensors, back.tensors) && all.metadata == back.metadata, "it comes back as something else");
}

void npy(const std::string& path) {
  const Tensor x = load_npy(path);
  require(same(x, written_and_read([&](const std::string& file) { save_npy(file, x); }, load_npy)),
          "it comes back as something else");
}

void npz(const std::string& path) {
  const StateDict all = load_npz(path);
  require(same(all, written_and_read([&](const std::string& file) { save_npz(file, all); }, load_npz)),
          "it comes back as something else");
}

void checkpoint(const std::string& path) {
  const CheckpointInfo info = checkpoint_info(path);
  require(info.step >= 0 && info.version >= 1, "what it says of itself can't be");
  checkpoint_part(path, "model");
}

void gguf(const std::string& path) {
  const nn::GGUFModel m = nn::load_gguf(path);
  const nn::GGUFModel back = written_and_read(
      [&](const std::string& file) { nn::save_gguf(file, m.model, m.tokenizer, nn::SaveGGUFOptions().name(m.name)); },
      [](const std::string& file) { return nn::load_gguf(file); });
  require(same(m.model.state_dict(), back.model.state_dict()) && m.tokenizer.tokens == back.tokenizer.tokens,
          "it comes back as something else");
}

void idx(const std::string& path) { data::read_idx(path); }

void csv(const std::string& path) {
  const data::Csv all = data::read_csv(path);
  all.numbers();
}

void characters(const std::string& path) {
  const text::CharVocabulary v = text::CharVocabulary::load(path);
  const text::CharVocabulary back =
      written_and_read([&](const std::string& file) { v.save(file); }, text::CharVocabulary::load);
  require(back.size() == v.size(), "it comes back as something else");
}

void byte_pairs(const std::string& path) {
  const text::BytePairVocabulary v = text::BytePairVocabulary::load(path);
  const std::string text = "the cat sat on the mat: größer\n\xF0\x9F\x98\x80";
  require(v.decode(v.encode(text)) == text, "the text does not come back");
}

void word_pieces(const std::string& path) { text::WordPieces::load(path).encode("The cat sat, größer, on 12 mats!"); }

// The ids, a byte of 0, and the merges.
void gpt2(const std::string& path) {
  const std::string all = data::read_text(path);
  const std::size_t cut = std::min(all.find('\0'), all.size());
  const MemoryFile ids(all.substr(0, cut)), merges(cut < all.size() ? all.substr(cut + 1) : std::string());
  const text::GPT2Vocabulary v = text::GPT2Vocabulary::load(ids.path(), merges.path());
  const std::string text = "the cat  sat";
  require(v.decode(v.encode(text)) == text, "the text does not come back");
}

void tokenizer(const std::string& path) {
  const text::Tokenizer t = text::Tokenizer::load(path);
  const std::string text = "the Cat  sat on\n12 m\xC3\xA4ts <unk>";
  std::vector<std::int64_t> ids;
  try {
    const text::Encoding all = t.encoding(text);
    ids = all.ids;
    for (const auto& [begin, end] : all.offsets)
      require(begin >= 0 && begin <= end && end <= static_cast<std::int64_t>(text.size()),
              "an offset is not in the text");
    t.decode(ids);
  } catch (const FileError&) {
    throw;
  } catch (const Error&) {  // a word that a vocabulary without an unknown token lacks
    return;
  }
  const text::Tokenizer back = written_and_read([&](const std::string& file) { t.save(file); }, text::Tokenizer::load);
  require(back.encoding(text).ids == ids, "it comes back as something else");
}

// config.json of a model: the options are checked, but the model is not made.
void config(const std::string& path) {
  const io::Config c("load_pretrained", path);
  const std::string type = nn::hub::model_type(c);
  c.ignore(nn::hub::harmless_keys());
  for (const nn::hub::GPTFamily& family : nn::hub::gpt_families())
    if (type == family.model_type) nn::listed(nn::hub::options_of(family, c));
  for (const nn::hub::BERTFamily& family : nn::hub::bert_families())
    if (type == family.model_type) nn::listed(nn::hub::options_of(family, c));
  c.check_all_read();
}

void chat(const std::string& path) {
  try {
    text::ChatTemplate(data::read_text(path)).apply({{"user", "Hello"}, {"assistant", "W\xC3\xB6rld"}});
  } catch (const FileError&) {
    throw;
  } catch (const Error& e) {
    throw FileError(e.what());
  }
}

// ---- repairs ------------------------------------------------------------------------------------------------------

void put_number(std::string& bytes, std::size_t at, std::uint64_t value, std::size_t size) {
  if (at + size > bytes.size()) return;
  for (std::size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i) & 255);
}

// The header ends with the last closing brace before what is no text.
void repair_safetensors(std::string& bytes) {
  if (bytes.size() < 10) return;
  std::size_t end = 8;
  int depth = 0;
  for (std::size_t i = 8; i < bytes.size(); ++i) {
    depth += (bytes[i] == '{') - (bytes[i] == '}');
    if (bytes[i] == '}') end = i + 1;
    if (depth <= 0 && end > 8) break;
  }
  put_number(bytes, 0, end - 8, 8);
}

void repair_npy(std::string& bytes) {
  if (bytes.size() < 12) return;
  std::memcpy(bytes.data(), "\x93NUMPY\x01\x00", 8);
  const std::size_t end = bytes.find('\n', 10);
  if (end != std::string::npos) put_number(bytes, 8, end + 1 - 10, 2);
}

// Checksums of the members that lie in it as they are, and the place of the directory.
void repair_npz(std::string& bytes) {
  const std::size_t end = bytes.rfind(std::string("PK\5\6", 4));
  const std::size_t directory = bytes.find(std::string("PK\1\2", 4));
  if (end == std::string::npos || directory == std::string::npos || end + 20 > bytes.size()) return;
  put_number(bytes, end + 16, directory, 4);
  put_number(bytes, end + 12, end - directory, 4);
  const auto number = [&](std::size_t at, std::size_t size) {
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < size && at + i < bytes.size(); ++i)
      v |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    return v;
  };
  for (std::size_t at = directory; at + 46 <= end && bytes.compare(at, 4, "PK\1\2", 4) == 0;) {
    const std::size_t local = number(at + 42, 4), size = number(at + 20, 4);
    const std::size_t data = local + 30 + number(local + 26, 2) + number(local + 28, 2);
    if (number(at + 10, 2) == 0 && data + size <= directory) {
      const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()) + data, size);
      put_number(bytes, at + 16, sum, 4);
      put_number(bytes, local + 14, sum, 4);
    }
    at += 46 + number(at + 28, 2) + number(at + 30, 2) + number(at + 32, 2);
  }
}

void repair_nothing(std::string&) {}

}  // namespace

const std::vector<FuzzTarget>& fuzz_targets() {
  static const std::vector<FuzzTarget> all = {
      {"safetensors", safetensors, repair_safetensors},
      {"npy", npy, repair_npy},
      {"npz", npz, repair_npz},
      {"checkpoint", checkpoint, repair_safetensors},
      {"gguf", gguf, repair_nothing},
      {"idx", idx, repair_nothing},
      {"csv", csv, repair_nothing},
      {"characters", characters, repair_nothing},
      {"byte_pairs", byte_pairs, repair_nothing},
      {"word_pieces", word_pieces, repair_nothing},
      {"gpt2", gpt2, repair_nothing},
      {"tokenizer", tokenizer, repair_nothing},
      {"config", config, repair_nothing},
      {"chat", chat, repair_nothing},
  };
  return all;
}

}  // namespace fit::test
