#include "fit/io/safetensors.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <tuple>
#include <unordered_set>

#include "io/atomic_file.hpp"
#include "io/element_types.hpp"
#include "io/half.hpp"
#include "io/input_file.hpp"
#include "io/json.hpp"
#include "io/kind.hpp"
#include "io/stored.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"
#include "tensor/mapped.hpp"

namespace fit {
namespace {

constexpr const char* op = "load_safetensors";
constexpr std::int64_t length_bytes = 8;
constexpr std::uint64_t longest_header = 100'000'000;  // the reference's limit
constexpr char metadata_key[] = "__metadata__";

// ---- the header ---------------------------------------------------------------------------------------------------

struct Entry {
  std::string name;
  const io::ElementType* type;
  Shape shape;
  std::uint64_t begin, end;  // in the data
};

// The reason why a tensor can't have this name; null if it can. The JSON reader and writer check for valid UTF-8.
const char* wrong_name(const std::string& name) {
  if (name.empty()) return "is empty";
  if (name.size() > io::longest_name) return "is longer than 4096 bytes";
  if (name == metadata_key) return "is that of the strings";
  for (const unsigned char c : name)
    if (c < ' ' || c == 0x7F) return "holds a character that can't be printed";
  return nullptr;
}

class HeaderReader {
 public:
  HeaderReader(const io::InputFile& file, const io::Json& header, std::int64_t data_bytes)
      : file_(file), header_(header), data_bytes_(static_cast<std::uint64_t>(data_bytes)) {}

  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> m;
    const io::Json* const found = header_.find(metadata_key);
    if (!found) return m;
    if (!found->is_object()) file_.fail(metadata_key, " is ", found->type_name(), ": expected an object of strings");
    for (const auto& [key, value] : found->items()) {
      if (!value.is_string())
        file_.fail(metadata_key, " '", io::shown(key), "' is ", value.type_name(), ": expected a string");
      m[key] = value.text();
    }
    return m;
  }

  /// In the order of the data. The tensors fill the data without gaps.
  std::vector<Entry> entries() const {
    std::vector<Entry> all;
    for (const auto& [name, value] : header_.items())
      if (name != metadata_key) all.push_back(entry(name, value));
    std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t at = 0;
    for (const Entry& e : all) {
      if (e.begin != at)
        file_.fail("tensor '", io::shown(e.name), "': data_offsets begin at ", e.begin, ", expected ", at,
                   ", where the tensor before it ends");
      at = e.end;
    }
    if (at != data_bytes_)
      file_.fail("the tensors end at ", at, " of the data, the file at ", data_bytes_, ": both must be the same");
    return all;
  }

 private:
  Entry entry(const std::string& name, const io::Json& value) const {
    const std::string who = "tensor '" + io::shown(name) + "': ";
    if (const char* wrong = wrong_name(name)) file_.fail(who, "the name ", wrong);
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets"))
      file_.fail(who, "expected an object of exactly dtype, shape and data_offsets");
    const io::Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];

    if (!dtype.is_string()) file_.fail(who, "dtype is ", dtype.type_name(), ": expected a string");
    const io::ElementType* const type = io::find_type(&io::ElementType::safetensors, dtype.text());
    if (!type)
      file_.fail(who, "dtype '", io::shown(dtype.text()), "' is not supported: convert it to one of ",
                 io::type_names(&io::ElementType::safetensors));

    if (!shape.is_array()) file_.fail(who, "shape is ", shape.type_name(), ": expected a list");
    if (shape.size() > Shape::max_rank)
      file_.fail(who, "shape has ", shape.size(), " axes: ", int{Shape::max_rank}, " are the most");
    std::vector<std::int64_t> sizes;
    bool fits = true;
    std::uint64_t bytes = static_cast<std::uint64_t>(type->size), largest = bytes;
    for (const auto& size : shape) {
      const std::uint64_t n = whole(size, who, "shape");
      // A size of 0 must not hide an overflow in the others.
      if (n > 0) fits = fits && !__builtin_mul_overflow(largest, n, &largest);
      bytes *= n;
      fits = fits && largest <= std::uint64_t{1} << 62;
      if (fits) sizes.push_back(static_cast<std::int64_t>(n));
    }
    if (!fits) file_.fail(who, "the bytes of shape ", shape.dump(), " do not fit 62 bits");

    if (!offsets.is_array() || offsets.size() != 2) file_.fail(who, "data_offsets must be a list of two numbers");
    const std::uint64_t begin = whole(offsets[0], who, "data_offsets"), end = whole(offsets[1], who, "data_offsets");
    if (begin > end || end > data_bytes_)
      file_.fail(who, "data_offsets are ", begin, " and ", end, " in data of ", data_bytes_,
                 " bytes: expected begin <= end <= length (is the file truncated?)");
    if (end - begin != bytes)
      file_.fail(who, "data_offsets hold ", end - begin, " bytes, expected ", bytes, " for shape ", shape.dump(),
                 " of ", type->safetensors);
    return {name, type, Shape(sizes), begin, end};
  }

  std::uint64_t whole(const io::Json& number, const std::string& who, const char* field) const {
    if (!number.is_natural())
      file_.fail(who, field, " holds ", io::shown(number.dump()), ": expected whole numbers that are not negative");
    return number.natural();
  }

  const io::InputFile& file_;
  const io::Json& header_;
  std::uint64_t data_bytes_;
};

io::Json read_header(io::InputFile& file) {
  if (file.size() < length_bytes) file.fail("expected at least 8 bytes for the header's length, found ", file.size());
  std::uint64_t length;
  file.read(&length, length_bytes);
  if (length > longest_header || length > static_cast<std::uint64_t>(file.left()))
    file.fail("byte 0: the header is said to have ", length, " bytes, but there are ", file.left(),
              " left in the file (and ", longest_header, " are the most)");
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::int64_t>(length));
  if (text.empty() || text[0] != '{')
    file.fail("byte 8: expected the header to begin with '{', found '", io::shown(text.substr(0, 8)), "'");
  const std::size_t end = text.find_last_not_of(' ');
  if (text[end] != '}') file.fail("byte ", 8 + end, ": expected the header to end with '}' and spaces");
  return io::parse_json(file, text, {3, 32, io::longest_name});
}

// How large tensors are read: immediately, or on demand through a memory mapping.
enum class Large { read, mapped };

// The tensor at the file's position.
Tensor read_tensor(io::InputFile& file, const io::ElementType& type, const Shape& shape, Large large) {
  constexpr std::int64_t least = 1 << 16;  // bytes; fewer are read as fast as they are mapped
  if (!type.convert && large == Large::mapped && shape.numel() * type.size >= least)
    if (Tensor x = mapped(file.descriptor(), file.position(), shape, type.dtype); x.defined()) return x;
  return type.read(file, shape);
}

// The tensors of an open file. The readers share the file; each seeks to its own position.
std::vector<io::Stored> stored_in(const std::shared_ptr<io::InputFile>& file, const std::vector<Entry>& entries,
                                  Large large) {
  const std::int64_t data = file->position();
  std::vector<io::Stored> all;
  all.reserve(entries.size());
  for (const Entry& e : entries) {
    const auto at_its_place = [file, at = data + static_cast<std::int64_t>(e.begin)]() -> io::InputFile& {
      file->seek(at);
      return *file;
    };
    all.push_back({e.name, e.shape, e.type->dtype,
                   [at_its_place, e, large] { return read_tensor(at_its_place(), *e.type, e.shape, large); },
                   e.type->converted_from});
    if (!e.type->convert)
      all.back().map = [at_its_place, e] {
        const io::InputFile& in = at_its_place();
        return mapped(in.descriptor(), in.position(), e.shape, e.type->dtype);
      };
    if (is_floating(e.type->dtype))
      all.back().read_into = [at_its_place, type = e.type](Tensor& to) { type->read_into(at_its_place(), to); };
  }
  return all;
}

std::vector<io::Stored> open_one(const std::string& path, Large large,
                                 std::map<std::string, std::string>* metadata = nullptr) {
  const auto file = std::make_shared<io::InputFile>(op, path);
  io::refuse_others(*file, io::FileKind::safetensors);
  const io::Json json = read_header(*file);
  const HeaderReader header(*file, json, file->left());
  if (metadata) *metadata = header.metadata();
  return stored_in(file, header.entries(), large);
}

// ---- several files ------------------------------------------------------------------------------------------------

// The files of an index, each with the tensors that it must hold. The index is
// {"metadata": {…}, "weight_map": {name: file}}.
std::map<std::string, std::vector<std::string>> read_index(io::InputFile& file) {
  if (file.size() > static_cast<std::int64_t>(longest_header)) file.fail("the index has more than 100000000 bytes");
  const io::Json json = io::parse_json(file, file.rest(), {3, 32, io::longest_name});
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    file.fail("expected an index: an object with a weight_map, from names to files");
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [name, value] : json["weight_map"].items()) {
    const std::string part = value.is_string() ? value.text() : std::string();
    if (part.empty() || part.find_first_of(std::string("/\\\0", 3)) != std::string::npos || part == ".." || part == ".")
      file.fail("tensor '", io::shown(name), "' is said to be in ", io::shown(value.dump()),
                ": expected the name of a file of the same folder");
    files[part].push_back(name);
  }
  return files;
}

std::vector<io::Stored> open_index(const std::string& path, Large large) {
  io::InputFile index(op, path);
  std::vector<io::Stored> all;
  for (const auto& [part, names] : read_index(index)) {
    std::vector<io::Stored> held = open_one((std::filesystem::path(path).parent_path() / part).string(), large);
    std::unordered_set<std::string> left(names.begin(), names.end());
    for (io::Stored& x : held) {
      if (!left.erase(x.name))
        index.fail("file '", io::shown(part), "' holds '", io::shown(x.name), "', which the index does not say");
      all.push_back(std::move(x));
    }
    if (!left.empty())
      index.fail("file '", io::shown(part), "' lacks '", io::shown(*left.begin()), "', which the index says");
  }
  return all;
}

std::vector<io::Stored> open_safetensors(const std::string& path, Large large,
                                         std::map<std::string, std::string>* metadata = nullptr) {
  io::InputFile file(op, path);
  return io::kind_of(file) == io::FileKind::json ? open_index(path, large) : open_one(path, large, metadata);
}

// Converts float64 to float32 by rounding to odd, so that the later rounding to 16 bits is the only one.
void write_halves(io::AtomicFile& out, const Tensor& x) {
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(x.numel()));
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto all = x.data<T>();
    std::transform(all.begin(), all.end(), halves.begin(), [](T v) {
      if constexpr (std::is_same_v<T, double>)
        return io::float_to_half(detail::odd_float(v));
      else
        return io::float_to_half(static_cast<float>(v));
    });
  });
  out.write(halves.data(), halves.size() * sizeof(std::uint16_t));
}

}  // namespace

std::vector<io::Stored> io::open_tensors(const std::string& path) {
  InputFile file(op, path);
  return kind_of(file) == FileKind::zip ? open_npz(path) : open_safetensors(path, Large::read);
}

std::map<std::string, std::string> io::metadata_of(const std::string& path) {
  std::map<std::string, std::string> strings;
  InputFile file(op, path);
  if (kind_of(file) == FileKind::safetensors) open_one(path, Large::read, &strings);
  return strings;
}

SafeTensors load_safetensors(const std::string& path, Bfloat16As bf16) {
  SafeTensors all;
  for (const io::Stored& x : open_safetensors(path, Large::mapped, &all.metadata)) {
    const Tensor t = x.read();
    all.tensors.emplace_back(x.name, t.dtype() == bfloat16 && bf16 == Bfloat16As::converted ? t.to(float32) : t);
  }
  return all;
}

namespace {

std::string quoted(const std::string& s) {
  try {
    return io::Json(s).dump();
  } catch (const Error&) {
    check::fail("save_safetensors", "a name or a string is not valid UTF-8");
  }
}

// Writes a JSON object from keys and values that are JSON texts.
class ObjectText {
 public:
  void put(const std::string& key, const std::string& value) {
    text_ += (text_.empty() ? "{" : ",") + quoted(key) + ':' + value;
  }
  std::string str() const { return (text_.empty() ? "{" : text_) + '}'; }

 private:
  std::string text_;
};

}  // namespace

void io::write_safetensors(const std::string& path, const StateDict& tensors,
                           const std::map<std::string, std::string>& metadata, FloatsAs floats,
                           const std::function<void(const std::string& temporary)>& check) {
  constexpr const char* op = "save_safetensors";
  const auto as_half = [floats](const Tensor& x) { return floats == FloatsAs::f16 && is_floating(x.dtype()); };
  const auto size = [&](const Tensor& x) { return as_half(x) ? 2 : size_of(x.dtype()); };
  std::unordered_set<std::string> names;
  for (const auto& [name, x] : tensors) {
    if (const char* wrong = wrong_name(name)) check::fail(op, "the name '", io::shown(name), "' ", wrong);
    if (!names.insert(name).second) check::fail(op, "the name '", io::shown(name), "' is there twice");
    if (!x.defined()) check::fail(op, "the tensor '", io::shown(name), "' is undefined");
  }
  // Tensors with larger elements come first, so that each tensor is aligned to its element size.
  StateDict sorted = tensors;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto& a, const auto& b) { return size(a.second) > size(b.second); });
  ObjectText header, strings;
  for (const auto& [key, value] : metadata) strings.put(key, quoted(value));
  if (!metadata.empty()) header.put(metadata_key, strings.str());
  std::int64_t at = 0;
  for (const auto& [name, x] : sorted) {
    const std::int64_t end = at + x.numel() * size(x);
    std::string shape;
    for (const std::int64_t n : x.shape()) shape += (shape.empty() ? "" : ",") + std::to_string(n);
    header.put(name, std::string("{\"dtype\":\"") + (as_half(x) ? "F16" : io::type_of(x.dtype()).safetensors) +
                         "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(at) + ',' +
                         std::to_string(end) + "]}");
    at = end;
  }
  std::string text = header.str();
  text.append(7 - (text.size() + 7) % 8, ' ');
  const std::uint64_t length = text.size();
  if (length > longest_header) check::fail(op, "the names and strings take ", length, " bytes: 100000000 are the most");

  io::AtomicFile out(op, path);
  out.write(&length, length_bytes);
  out.write(text.data(), text.size());
  for (const auto& [name, x] : sorted)
    as_half(x) ? write_halves(out, x) : out.write(x.raw(), static_cast<std::size_t>(x.numel() * size_of(x.dtype())));
  out.commit(check);
}

void save_safetensors(const std::string& path, const StateDict& tensors,
                      const std::map<std::string, std::string>& metadata, FloatsAs floats) {
  io::write_safetensors(path, tensors, metadata, floats, {});
}

}  // namespace fit
