#include "fit/io/npy.hpp"

#include <cstring>
#include <numeric>
#include <utility>

#include "fit/ops/ops.hpp"
#include "io/atomic_file.hpp"
#include "io/element_types.hpp"
#include "io/kind.hpp"
#include "io/npy.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "elements are written as they lie in memory: the files' little-endian types need a little-endian processor"
#endif

constexpr char magic[] = "\x93NUMPY";
constexpr std::int64_t magic_size = 6;
constexpr std::int64_t longest_npy_header = 1 << 20;  // more than any fit tensor needs

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// Reads the header, a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class NpyHeaderReader {
 public:
  NpyHeaderReader(const io::InputFile& file, const std::string& text) : file_(file), text_(text) {}

  Header read() {
    Header h;
    bool seen[3] = {};
    expect('{');
    while (!take('}')) {
      const std::string key = quoted("a key");
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0)
        file_.fail("unknown key '", io::shown(key), "' in the header: expected descr, fortran_order and shape");
      if (std::exchange(seen[which], true)) file_.fail("key '", key, "' stands twice in the header");
      expect(':');
      if (which == 0)
        h.descr = quoted("the type, as a string such as '<f4' (structured types can't be read),");
      else if (which == 1)
        h.fortran_order = truth();
      else
        h.shape = sizes();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!seen[0] || !seen[1] || !seen[2])
      file_.fail("the header lacks the key '", !seen[0] ? "descr" : !seen[1] ? "fortran_order" : "shape", "'");
    skip();
    if (at_ != text_.size()) wrong("the end of the header");
    return h;
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) wrong(std::string("'") + c + "'");
  }
  [[noreturn]] void wrong(const std::string& expected) const {
    const std::string found = at_ < text_.size() ? "'" + io::shown(text_.substr(at_, 12)) + "'" : "its end";
    file_.fail("expected ", expected, " at byte ", at_, " of the header, found ", found);
  }
  std::string quoted(const char* what) {
    const char mark = take('\'') ? '\'' : take('"') ? '"' : '\0';
    const std::size_t end = mark ? text_.find(mark, at_) : std::string::npos;
    if (end == std::string::npos) wrong(std::string(what) + " in quotes");
    std::string s = text_.substr(at_, end - at_);
    at_ = end + 1;
    return s;
  }
  bool truth() {
    skip();
    for (const bool value : {true, false})
      if (const std::string word = value ? "True" : "False"; text_.compare(at_, word.size(), word) == 0) {
        at_ += word.size();
        return value;
      }
    wrong("True or False");
  }
  std::vector<std::int64_t> sizes() {
    std::vector<std::int64_t> s;
    bool comma = true;
    expect('(');
    while (!take(')')) {
      if (!comma) wrong("',' or ')'");
      s.push_back(whole());
      comma = take(',');
    }
    if (s.size() == 1 && !comma) wrong("a tuple: (n,) for one axis");
    return s;
  }
  std::int64_t whole() {
    skip();
    const std::size_t first = at_;
    std::int64_t n = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, text_[at_] - '0', &n))
        file_.fail("a size in the shape does not fit 64 bits");
    if (at_ == first) wrong("a size (a whole number, not negative)");
    return n;
  }

  const io::InputFile& file_;
  const std::string& text_;
  std::size_t at_ = 0;
};

Shape checked_shape(const io::InputFile& in, const std::vector<std::int64_t>& sizes) {
  try {
    return Shape(sizes);
  } catch (const Error& e) {
    in.fail("the shape can't be one: ", e.what());
  }
}

Header read_npy_header(io::InputFile& in) {
  char begin[magic_size + 2];
  if (in.size() < magic_size + 4)
    io::refuse_others(in, io::FileKind::npy),
        in.fail("expected at least ", magic_size + 4, " bytes of an .npy file, found ", in.size());
  in.read(begin, sizeof begin);
  if (std::memcmp(begin, magic, magic_size) != 0)
    io::refuse_others(in, io::FileKind::npy), in.fail("it is no .npy file: expected it to begin with \\x93NUMPY");
  const int major = static_cast<unsigned char>(begin[magic_size]);
  const int minor = static_cast<unsigned char>(begin[magic_size + 1]);
  if (major < 1 || major > 3 || minor != 0) in.fail("expected format 1.0, 2.0 or 3.0, found ", major, ".", minor);
  std::uint32_t length = 0;  // little-endian, 2 bytes in format 1.0, then 4
  in.read(&length, major == 1 ? 2 : 4);
  if (length > longest_npy_header || length > in.left())
    in.fail("the header is said to have ", length, " bytes, but there are ", in.left(), " left in the file (and ",
            longest_npy_header, " are the most)");
  std::string text(length, '\0');
  in.read(text.data(), length);
  return NpyHeaderReader(in, text).read();
}

}  // namespace

io::NpyArray io::read_npy(InputFile& in) {
  const Header h = read_npy_header(in);
  Shape shape = checked_shape(in, h.shape);
  if (h.fortran_order) shape = checked_shape(in, {h.shape.rbegin(), h.shape.rend()});
  const ElementType* const type = find_type(&ElementType::npy, h.descr);
  if (!type)
    in.fail("expected a type of ", type_names(&ElementType::npy), ", found '", io::shown(h.descr),
            "': convert the array by astype()");
  const std::int64_t size = type->size;
  if (shape.numel() > INT64_MAX / size || shape.numel() * size != in.left())
    in.fail("expected ", shape.numel(), " elements of ", size, " bytes for shape ", shape, " of type ", h.descr,
            ", found ", in.left(), " bytes after the header");
  const Tensor x = type->read(in, shape);
  if (!h.fortran_order) return {x, type->converted_from};
  std::vector<int> backwards(h.shape.size());
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  return {permute(x, backwards), type->converted_from};
}

void io::expect_npy_type(const char* op, const std::string& what, const Tensor& x) {
  check::defined(op, what.c_str(), x);
  if (x.dtype() == bfloat16)
    check::fail(op, what,
                " is bfloat16, a type that NumPy's format does not have: convert it with .to(float32), or use "
                "save_safetensors()");
}

std::string io::npy_header(const Tensor& x) {
  std::string sizes;
  for (const std::int64_t n : x.shape()) sizes += (sizes.empty() ? "" : ", ") + std::to_string(n);
  if (x.rank() == 1) sizes += ",";
  std::string text =
      std::string("{'descr': '") + type_of(x.dtype()).npy + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  // The data begin at a multiple of 64 bytes.
  const std::size_t before = magic_size + 4;
  text.append(63 - (before + text.size()) % 64, ' ');
  text += '\n';
  const char begin[] = {1, 0, static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return std::string(magic, magic_size) + std::string(begin, sizeof begin) + text;
}

Tensor load_npy(const std::string& path) {
  io::InputFile in("load_npy", path);
  return io::read_npy(in).values;
}

void save_npy(const std::string& path, const Tensor& x) {
  io::expect_npy_type("save_npy", "the tensor", x);
  const std::string header = io::npy_header(x);
  io::AtomicFile out("save_npy", path);
  out.write(header.data(), header.size());
  out.write(x.raw(), static_cast<std::size_t>(x.numel() * size_of(x.dtype())));
  out.commit();
}

}  // namespace fit
