#pragma once
#include <cstdint>
#include <type_traits>

#include "fit/base/shape.hpp"

/// A number beside tensors.
namespace fit {

/// A C++ number as an operand. It promotes no tensor: x * 2 and x * 2.0 have the type of x, or int64 if x is boolean. A
/// number with a fraction throws Error for an int64 or boolean tensor, except in `/`; it is not truncated.
class Scalar {
 public:
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T v)
      : value_(static_cast<double>(v)),
        whole_(std::is_integral_v<T> ? static_cast<std::int64_t>(v) : 0),
        dtype_(std::is_same_v<T, bool>    ? DType::boolean
               : std::is_integral_v<T>    ? DType::int64
               : std::is_same_v<T, float> ? DType::float32
                                          : DType::float64) {}
  DType dtype() const { return dtype_; }
  double value() const { return value_; }
  /// Whether the value is an integer that int64 can hold.
  bool is_integer() const;
  /// The value as an integer. Throws Error in the name of `op` if it is not an integer.
  std::int64_t to_integer(const char* op) const;

 private:
  double value_;
  std::int64_t whole_;
  DType dtype_;
};

}  // namespace fit
