#pragma once
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <vector>

#include "fit/bfloat16.hpp"

namespace fit {

/// The type of a tensor's elements, in the order of promotion: an operation on two types gives the larger.
/// Stored as: boolean bool (one byte), int8 std::int8_t, int64 std::int64_t, bfloat16 BFloat16, float32 float, float64
/// double. What is bfloat16 is computed in float32 and rounded once. int8 holds weights (int8.hpp): it is stored,
/// copied and converted by Tensor::to(), and other operations refuse it.
enum class DType : std::uint8_t { boolean, int8, int64, bfloat16, float32, float64 };

/// The types under short names.
inline constexpr DType boolean = DType::boolean, int8 = DType::int8, int64 = DType::int64, bfloat16 = DType::bfloat16,
                       float32 = DType::float32, float64 = DType::float64;

/// Whether it is bfloat16, float32 or float64.
constexpr bool is_floating(DType t) { return t >= DType::bfloat16; }
/// Bytes of an element.
constexpr std::int64_t size_of(DType t) {
  return t <= DType::int8 ? 1 : t == DType::bfloat16 ? 2 : t == DType::float32 ? 4 : 8;
}
/// The type of an operation on both: the larger one.
constexpr DType promote(DType a, DType b) { return a < b ? b : a; }
/// "float32" and so on.
const char* name_of(DType t);
/// Writes name_of().
std::ostream& operator<<(std::ostream& out, DType t);

/// DType of a C++ type: dtype_of<float>() is float32. bool, std::int8_t, std::int64_t, BFloat16, float and double
/// have one.
template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<bool>() {
  return DType::boolean;
}
template <>
constexpr DType dtype_of<std::int8_t>() {
  return DType::int8;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::int64;
}
template <>
constexpr DType dtype_of<BFloat16>() {
  return DType::bfloat16;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::float32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::float64;
}

/// The sizes of a tensor's axes: up to max_rank of them, held inline. An empty Shape is that of a scalar.
/// Throws Error for a negative size, for more axes than max_rank and for a count of elements beyond 2^62.
class Shape {
 public:
  static constexpr int max_rank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(sizes.begin(), static_cast<int>(sizes.size())) {}
  Shape(const std::vector<std::int64_t>& sizes) : Shape(sizes.data(), static_cast<int>(sizes.size())) {}
  Shape(const std::int64_t* sizes, int rank);

  /// How many axes there are.
  int rank() const { return rank_; }
  /// The product of all sizes: how many elements there are.
  std::int64_t numel() const { return numel_; }
  /// Size of an axis; a negative one counts from the end. The axis is not checked: Tensor::size() does that.
  std::int64_t operator[](int axis) const { return sizes_[axis < 0 ? axis + rank_ : axis]; }
  /// The sizes, one after the other.
  const std::int64_t* begin() const { return sizes_; }
  const std::int64_t* end() const { return sizes_ + rank_; }
  /// That of the last axis; there must be one.
  std::int64_t back() const { return sizes_[rank_ - 1]; }

  /// The same shape with one size changed, an axis put in before `axis`, or an axis taken out. Axes are not negative.
  Shape with(int axis, std::int64_t size) const;
  Shape inserted(int axis, std::int64_t size) const;
  Shape erased(int axis) const;

  /// "[2, 3]"
  std::string str() const;

  /// Whether they have as many axes, of the same sizes.
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.sizes_[i] != b.sizes_[i]) return false;
    return true;
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  std::int64_t sizes_[max_rank] = {};
  std::int64_t numel_ = 1;
  int rank_ = 0;
};

/// Writes str().
std::ostream& operator<<(std::ostream& out, const Shape& s);

}  // namespace fit
