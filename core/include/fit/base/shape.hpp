#pragma once
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <type_traits>
#include <vector>

#include "fit/base/bfloat16.hpp"

#if defined(_GLIBCXX_DEBUG) && !defined(FIT_GLIBCXX_DEBUG)
#error \
    "this fit was compiled without _GLIBCXX_DEBUG, which changes the layout of std::vector: compile fit with it, too, \
or use _GLIBCXX_ASSERTIONS instead"
#endif
#if defined(_LIBCPP_VERSION) && !defined(FIT_LIBCXX)
#error "this fit was compiled with libstdc++: compile it with -stdlib=libc++, too, or the program without"
#elif !defined(_LIBCPP_VERSION) && defined(FIT_LIBCXX)
#error "this fit was compiled with libc++: compile the program with -stdlib=libc++, too, or fit without"
#endif

namespace fit {

/// The type of a tensor's elements, in the order of promotion: an operation on two types gives the larger. The C++
/// types are: boolean bool (one byte), int8 std::int8_t, int64 std::int64_t, bfloat16 BFloat16, float32 float, float64
/// double. bfloat16 is computed in float32 and rounded once. int8 is for weights (int8.hpp): it can be stored, copied
/// and converted by Tensor::to(); other operations throw Error.
enum class DType : std::uint8_t { boolean, int8, int64, bfloat16, float32, float64 };

/// Short names of the types.
inline constexpr DType boolean = DType::boolean, int8 = DType::int8, int64 = DType::int64, bfloat16 = DType::bfloat16,
                       float32 = DType::float32, float64 = DType::float64;

/// Whether t is bfloat16, float32 or float64.
constexpr bool is_floating(DType t) { return t >= DType::bfloat16; }
namespace detail {
inline constexpr std::int64_t element_sizes[] = {1, 1, 8, 2, 4, 8};  // in the order of DType
}
/// Size of an element in bytes.
constexpr std::int64_t size_of(DType t) { return detail::element_sizes[static_cast<int>(t)]; }
/// The result type of an operation on both: the larger one.
constexpr DType promote(DType a, DType b) { return a < b ? b : a; }
/// "float32" and so on.
const char* name_of(DType t);
/// Writes name_of().
std::ostream& operator<<(std::ostream& out, DType t);

/// DType of a C++ type: dtype_of<float>() is float32. For bool, std::int8_t, std::int64_t, BFloat16, float and double.
template <class T>
constexpr DType dtype_of() {
  constexpr DType t = std::is_same_v<T, bool>           ? boolean
                      : std::is_same_v<T, std::int8_t>  ? int8
                      : std::is_same_v<T, std::int64_t> ? int64
                      : std::is_same_v<T, BFloat16>     ? bfloat16
                      : std::is_same_v<T, float>        ? float32
                                                        : float64;
  static_assert(t != float64 || std::is_same_v<T, double>, "no tensor has elements of this type");
  return t;
}

/// The sizes of a tensor's axes, at most max_rank, stored inline. A scalar has an empty Shape. Throws Error for a
/// negative size, more than max_rank axes, or more than 2^62 elements.
class Shape {
 public:
  static constexpr int max_rank = 8;

  Shape() = default;
// g++ 12 takes braces in the initial value of a member for dead here, though they live until the constructor returns.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdangling-pointer"
#endif
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(sizes.begin(), static_cast<int>(sizes.size())) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  Shape(const std::vector<std::int64_t>& sizes) : Shape(sizes.data(), static_cast<int>(sizes.size())) {}
  Shape(const std::int64_t* sizes, int rank);

  /// The number of axes.
  int rank() const { return rank_; }
  /// The number of elements: the product of all sizes.
  std::int64_t numel() const { return numel_; }
  /// Size of an axis; a negative axis counts from the end. Does not check the axis; Tensor::size() does.
  std::int64_t operator[](int axis) const { return sizes_[axis < 0 ? axis + rank_ : axis]; }
  /// The sizes, in order.
  const std::int64_t* begin() const { return sizes_; }
  const std::int64_t* end() const { return sizes_ + rank_; }
  /// Size of the last axis. The rank must be at least 1.
  std::int64_t back() const { return sizes_[rank_ - 1]; }

  /// A copy with one size changed, an axis inserted before `axis`, or an axis removed. `axis` must not be negative.
  Shape with(int axis, std::int64_t size) const;
  Shape inserted(int axis, std::int64_t size) const;
  Shape erased(int axis) const;

  /// "[2, 3]"
  std::string str() const;

  /// Whether ranks and sizes are equal.
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
