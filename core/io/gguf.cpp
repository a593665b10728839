#include "io/gguf.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <unordered_set>

#include "base/from_chars.hpp"
#include "io/atomic_file.hpp"
#include "tensor/check.hpp"

namespace fit::io {
namespace {

// The types of values, by their numbers in the file.
enum ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean8, string, array, u64, i64, f64 };
constexpr std::int64_t value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // the least

constexpr std::uint32_t gguf_magic = 0x46554747;  // "GGUF"
constexpr std::int64_t default_alignment = 32;

std::int64_t padded(std::int64_t at, std::int64_t alignment) { return (at + alignment - 1) / alignment * alignment; }

// The double with the fewest digits that is this float: 1e-5f is 1e-5.
double shortest(float value) {
  char text[32];
  double result = value;
  from_chars(text, std::to_chars(text, text + sizeof text, value).ptr, result);
  return result;
}

class GGUFReader {
 public:
  explicit GGUFReader(std::shared_ptr<InputFile> file) : file_(std::move(file)) {}

  GGUFFile read() {
    GGUFFile result{file_, {}, {}};
    if (file_->size() < 24 || number<std::uint32_t>() != gguf_magic)
      file_->fail("byte 0: expected a GGUF file, which begins with \"GGUF\", a version and two counts");
    const auto version = number<std::uint32_t>();
    if (version != 2 && version != 3) file_->fail("the version is ", version, ": expected 2 or 3");
    const std::int64_t tensors = count("the number of tensors", 24), keys = count("the number of keys", 12);
    std::unordered_set<std::string> seen;
    for (std::int64_t i = 0; i < keys; ++i) {
      where_ = "key " + std::to_string(i);
      std::string key = text(longest_name);
      where_ = "key '" + shown(key) + "'";
      if (key.empty() || !seen.insert(key).second) fail(key.empty() ? " has no name" : " is there twice");
      GGUFValue value = this->value(number<std::uint32_t>());
      if (key == "general.alignment") set_alignment(value);
      result.keys.emplace_back(std::move(key), std::move(value));
    }
    seen.clear();
    std::vector<Info> infos;
    for (std::int64_t i = 0; i < tensors; ++i) {
      infos.push_back(info(i));
      if (!seen.insert(infos.back().name).second) fail(" is there twice");
    }
    place(infos, result);
    return result;
  }

 private:
  struct Info {
    std::string name;
    Shape shape;
    const GGMLType* type;
    std::uint64_t offset;
    std::int64_t bytes() const { return shape.numel() / type->block * type->bytes; }
  };

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    file_->fail(where_, parts...);
  }
  template <class T>
  T number() {
    T x;
    file_->read(&x, sizeof x);
    return x;
  }
  // A number of things that take at least so many bytes each.
  std::int64_t count(const char* what, std::int64_t bytes) {
    const auto n = number<std::uint64_t>();
    if (n > static_cast<std::uint64_t>(file_->left() / bytes))
      fail(where_.empty() ? "" : ": ", what, " is ", n, ", but only ", file_->left(), " bytes are left in the file");
    return static_cast<std::int64_t>(n);
  }
  std::string text(std::uint64_t longest = std::numeric_limits<std::uint64_t>::max()) {
    const std::int64_t n = count("the length of a text", 1);
    if (static_cast<std::uint64_t>(n) > longest) fail(": the name has ", n, " bytes: ", longest, " are the most");
    std::string s(static_cast<std::size_t>(n), '\0');
    file_->read(s.data(), n);
    return s;
  }

  std::int64_t integer(std::uint32_t type) {
    switch (type) {
      case u8:
        return number<std::uint8_t>();
      case i8:
        return number<std::int8_t>();
      case u16:
        return number<std::uint16_t>();
      case i16:
        return number<std::int16_t>();
      case u32:
        return number<std::uint32_t>();
      case i32:
        return number<std::int32_t>();
      case boolean8:
        return boolean();
      default:
        break;
    }
    const auto n = number<std::int64_t>();
    if (type == u64 && n < 0) fail(" is a number above 2^63 - 1");
    return n;
  }
  bool boolean() {
    const auto byte = number<std::uint8_t>();
    if (byte > 1) fail(" is the byte ", int{byte}, ": a boolean is 0 or 1");
    return byte == 1;
  }
  double real(std::uint32_t type) { return type == f32 ? shortest(number<float>()) : number<double>(); }
  static bool is_real(std::uint32_t type) { return type == f32 || type == f64; }

  GGUFValue value(std::uint32_t type) {
    if (type == boolean8) return boolean();
    if (type == string) return text();
    if (type == array) return list();
    if (type > f64) fail(" has the type ", type, ": expected 0 … 12");
    if (is_real(type)) return real(type);
    return integer(type);
  }
  GGUFValue list() {
    const auto type = number<std::uint32_t>();
    if (type > f64 || type == array) fail(" is a list of type ", type, ": expected numbers, booleans or texts");
    const std::int64_t n = count("the length of a list", value_bytes[type]);
    const auto all = [n](auto element) {
      std::vector<decltype(element())> values;
      values.reserve(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) values.push_back(element());
      return values;
    };
    if (type == string) return all([&] { return text(); });
    if (is_real(type)) return all([&] { return real(type); });
    return all([&] { return integer(type); });
  }

  void set_alignment(const GGUFValue& value) {
    const auto* const n = std::get_if<std::int64_t>(&value);
    if (!n || *n < 8 || *n > 1 << 20 || (*n & (*n - 1)) != 0) fail(" must be a power of two in 8 … 1048576");
    alignment_ = *n;
  }

  Info info(std::int64_t i) {
    where_ = "tensor " + std::to_string(i);
    Info t{text(longest_name), {}, nullptr, 0};
    where_ = "tensor '" + shown(t.name) + "'";
    if (t.name.empty()) fail(" has no name");
    const auto axes = number<std::uint32_t>();
    if (axes > 4) fail(" has ", axes, " axes: 4 are the most");
    std::int64_t sizes[4];  // the first one is that of neighbours
    std::int64_t numel = 1;
    for (std::uint32_t a = 0; a < axes; ++a) {
      const auto n = number<std::uint64_t>();
      if (n == 0 || n > std::uint64_t{1} << 40 || __builtin_mul_overflow(numel, static_cast<std::int64_t>(n), &numel) ||
          numel > std::int64_t{1} << 48)
        fail(": size ", a, " is ", n, ": sizes must be positive, and their product at most 2^48");
      sizes[axes - 1 - a] = static_cast<std::int64_t>(n);
    }
    t.shape = Shape(sizes, static_cast<int>(axes));
    const auto type = number<std::uint32_t>();
    t.type = find_ggml_type(type);
    if (!t.type)
      fail(" has ggml's type ", type, ": F32 (0), F16 (1), Q4_0 (2), Q8_0 (8), Q4_K (12), Q6_K (14) and BF16 (30) can ",
           "be read");
    if ((axes == 0 ? 1 : t.shape.back()) % t.type->block != 0)
      fail(" has rows of ", axes == 0 ? 1 : t.shape.back(), " elements: blocks of ", t.type->name, " have ",
           t.type->block);
    t.offset = number<std::uint64_t>();
    return t;
  }

  // The tensors lie one after the other, as ggml wants it: so no byte belongs to two of them.
  void place(const std::vector<Info>& infos, GGUFFile& result) {
    const std::int64_t begin = std::min(padded(file_->position(), alignment_), file_->size());
    std::int64_t at = 0;
    for (const Info& t : infos) {
      where_ = "tensor '" + shown(t.name) + "'";
      if (t.offset != static_cast<std::uint64_t>(at))
        fail(" begins at byte ", t.offset, " of the data: expected ", at, ", where the tensor before it ends");
      if (t.bytes() > file_->size() - begin - at)
        fail(" ends at byte ", at + t.bytes(), " of the data: it has ", file_->size() - begin, " (is the file cut?)");
      result.tensors.push_back({t.name, t.shape, DType::float32,
                                [file = file_, t, from = begin + at] { return elements(*file, t, from); },
                                t.type->name});
      at = padded(at + t.bytes(), alignment_);
    }
  }

  static Tensor elements(InputFile& file, const Info& t, std::int64_t from) {
    file.seek(from);
    Tensor y = Tensor::empty(t.shape, float32);
    float* to = y.fresh<float>();
    std::vector<unsigned char> piece(static_cast<std::size_t>(256 * t.type->bytes));  // of up to 256 blocks
    for (std::int64_t left = t.bytes(); left > 0;) {
      const std::int64_t n = std::min(left, static_cast<std::int64_t>(piece.size()));
      file.read(piece.data(), n);
      for (std::int64_t i = 0; i < n; i += t.type->bytes, to += t.type->block) t.type->read(piece.data() + i, to);
      left -= n;
    }
    return y;
  }

  std::shared_ptr<InputFile> file_;
  std::string where_;  // the key or tensor, for errors
  std::int64_t alignment_ = default_alignment;
};

// ---- writing --------------------------------------------------------------------------------------------------------

class HeaderText {
 public:
  template <class T>
  HeaderText& put(T x) {
    bytes_.append(reinterpret_cast<const char*>(&x), sizeof x);
    return *this;
  }
  HeaderText& text(const std::string& s) {
    put(static_cast<std::uint64_t>(s.size()));
    bytes_ += s;
    return *this;
  }
  void value(const GGUFValue& v) {
    std::visit([this](const auto& x) { write(x); }, v);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void write(bool x) { put(std::uint32_t{boolean8}).put(std::uint8_t{x}); }
  void write(std::int64_t x) { put(std::uint32_t{u32}).put(static_cast<std::uint32_t>(x)); }
  void write(double x) { put(std::uint32_t{f32}).put(static_cast<float>(x)); }
  void write(const std::string& x) { put(std::uint32_t{string}).text(x); }
  template <class T>
  void write(const std::vector<T>& list) {
    constexpr std::uint32_t type = std::is_same_v<T, std::string> ? string : std::is_same_v<T, double> ? f32 : i32;
    put(std::uint32_t{array}).put(type).put(static_cast<std::uint64_t>(list.size()));
    for (const T& x : list) {
      if constexpr (std::is_same_v<T, std::string>)
        text(x);
      else if constexpr (std::is_same_v<T, double>)
        put(static_cast<float>(x));
      else
        put(static_cast<std::int32_t>(x));
    }
  }
  std::string bytes_;
};

std::int64_t bytes_of(const GGUFTensor& t) { return t.values.numel() / t.type->block * t.type->bytes; }

void write_elements(AtomicFile& out, const GGUFTensor& t) {
  const Tensor values = t.values.detach().to(float32);
  const float* from = values.data<float>().data();
  std::vector<unsigned char> piece(static_cast<std::size_t>(256 * t.type->bytes));
  for (std::int64_t left = bytes_of(t); left > 0;) {
    const std::int64_t n = std::min(left, static_cast<std::int64_t>(piece.size()));
    for (std::int64_t i = 0; i < n; i += t.type->bytes, from += t.type->block) t.type->write(from, piece.data() + i);
    out.write(piece.data(), static_cast<std::size_t>(n));
    left -= n;
  }
}

}  // namespace

GGUFFile open_gguf(const char* op, const std::string& path) {
  return GGUFReader(std::make_shared<InputFile>(op, path)).read();
}

namespace {

// Throws Error for a number that its type in the file can't hold.
void check_range(const char* op, const std::string& key, const GGUFValue& value) {
  const auto check = [&](const auto& x, auto least, auto most) {
    if (x < least || x > most)
      check::fail(op, "key '", key, "' has the value ", x, ": the file holds ", least, " … ", most);
  };
  using Int = std::numeric_limits<std::int32_t>;
  constexpr float infinity = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  const auto check_number = [&](double x) {
    if (std::abs(x) != infinity) check(x, -largest, largest);
  };
  if (const auto* const x = std::get_if<std::int64_t>(&value)) check(*x, 0, std::numeric_limits<std::uint32_t>::max());
  if (const auto* const x = std::get_if<double>(&value)) check_number(*x);
  if (const auto* const list = std::get_if<std::vector<std::int64_t>>(&value))
    for (const std::int64_t x : *list) check(x, Int::min(), Int::max());
  if (const auto* const list = std::get_if<std::vector<double>>(&value))
    for (const double x : *list) check_number(x);
}

}  // namespace

void write_gguf(const char* op, const std::string& path, const GGUFKeys& keys, const std::vector<GGUFTensor>& tensors) {
  HeaderText head;
  head.put(gguf_magic).put(std::uint32_t{3}).put(static_cast<std::uint64_t>(tensors.size()));
  head.put(static_cast<std::uint64_t>(keys.size()));
  for (const auto& [key, value] : keys) {
    check_range(op, key, value);
    head.text(key).value(value);
  }
  std::int64_t at = 0;
  for (const GGUFTensor& t : tensors) {
    const Shape& s = t.values.shape();
    head.text(t.name).put(static_cast<std::uint32_t>(s.rank()));
    for (int a = s.rank() - 1; a >= 0; --a) head.put(s[a]);
    head.put(t.type->id).put(at);
    at = padded(at + bytes_of(t), default_alignment);
  }
  AtomicFile out(op, path);
  const auto pad = [&out](std::int64_t written) {
    const char zeros[default_alignment] = {};
    out.write(zeros, static_cast<std::size_t>(padded(written, default_alignment) - written));
  };
  out.write(head.bytes().data(), head.bytes().size());
  pad(static_cast<std::int64_t>(head.bytes().size()));
  for (const GGUFTensor& t : tensors) write_elements(out, t), pad(bytes_of(t));
  out.commit();
}

}  // namespace fit::io
