#include "io/element_types.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "io/half.hpp"

namespace fit::io {
namespace {

Tensor elements(InputFile& in, const Shape& shape, DType dtype) {
  Tensor y = Tensor::empty(shape, dtype);
  in.read(y.fresh<char>(), shape.numel() * size_of(dtype));
  return y;
}

// Reads elements of type From and converts each to To.
template <class From, class To, class Convert>
Tensor converted(InputFile& in, const Shape& shape, const Convert& convert) {
  Tensor y = Tensor::empty(shape, dtype_of<To>());
  From piece[1024];
  for (std::int64_t at = 0; at < shape.numel();) {
    const std::int64_t n = std::min<std::int64_t>(std::size(piece), shape.numel() - at);
    in.read(piece, n * static_cast<std::int64_t>(sizeof(From)));
    std::transform(piece, piece + n, y.fresh<To>() + at, convert);
    at += n;
  }
  return y;
}

template <class From>
Tensor to_int64(InputFile& in, const Shape& shape) {
  return converted<From, std::int64_t>(in, shape, [](From v) { return std::int64_t{v}; });
}

Tensor booleans(InputFile& in, const Shape& shape) {
  const std::int64_t first = in.position();
  Tensor y = elements(in, shape, boolean);
  const auto* byte = static_cast<const unsigned char*>(y.raw());
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    if (byte[i] > 1)
      in.fail("byte ", first + i, ", element ", i, " of a boolean tensor, is ", int{byte[i]}, ": expected 0 or 1");
  return y;
}

Tensor halves(InputFile& in, const Shape& shape) { return converted<std::uint16_t, float>(in, shape, half_to_float); }

// The first type of each dtype is the one that is written.
const ElementType types[] = {
    {"F32", "<f4", 4, DType::float32},
    {"F64", "<f8", 8, DType::float64},
    {"I64", "<i8", 8, DType::int64},
    {"BOOL", "|b1", 1, DType::boolean, booleans},
    {"I8", "", 1, DType::int8},  // weights; whole numbers of another library are int64
    {"BF16", "", 2, DType::bfloat16},
    {"I32", "<i4", 4, DType::int64, to_int64<std::int32_t>, "int32"},
    {"I16", "<i2", 2, DType::int64, to_int64<std::int16_t>, "int16"},
    {"", "|i1", 1, DType::int64, to_int64<std::int8_t>, "int8"},
    {"U8", "|u1", 1, DType::int64, to_int64<std::uint8_t>, "uint8"},
    {"U16", "<u2", 2, DType::int64, to_int64<std::uint16_t>, "uint16"},
    {"U32", "<u4", 4, DType::int64, to_int64<std::uint32_t>, "uint32"},
    {"F16", "<f2", 2, DType::float32, halves, "float16"},
};

}  // namespace

Tensor ElementType::read(InputFile& in, const Shape& shape) const {
  return convert ? convert(in, shape) : elements(in, shape, dtype);
}

void ElementType::read_into(InputFile& in, Tensor& to) const {
  to.before_write("load");
  const std::int64_t bytes = size_of(to.dtype());
  if (!convert && dtype == to.dtype()) return in.read(to.fresh<char>(), to.numel() * bytes);
  constexpr std::int64_t most = 1 << 18;  // elements at a time
  for (std::int64_t at = 0; at < to.numel();) {
    const std::int64_t n = std::min(most, to.numel() - at);
    const Tensor piece = read(in, {n}).to(to.dtype());
    std::memcpy(to.fresh<char>() + at * bytes, piece.raw(), static_cast<std::size_t>(n * bytes));
    at += n;
  }
}

const ElementType* find_type(const char* ElementType::*format, const std::string& name) {
  const auto at = std::find_if(std::begin(types), std::end(types),
                               [&](const ElementType& t) { return !name.empty() && name == t.*format; });
  return at == std::end(types) ? nullptr : at;
}

std::string type_names(const char* ElementType::*format) {
  std::string names;
  for (const ElementType& type : types)
    if (const std::string name = type.*format; !name.empty()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

const ElementType& type_of(DType dtype) {
  return *std::find_if(std::begin(types), std::end(types), [&](const ElementType& t) { return t.dtype == dtype; });
}

}  // namespace fit::io
