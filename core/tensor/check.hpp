#pragma once
#include <string>
#include <vector>

#include "base/joined.hpp"
#include "fit/tensor/tensor.hpp"

// Checks of arguments. All messages have the form: [op] the problem, the shapes or values, the rule.
namespace fit::check {

[[noreturn, gnu::cold]] void fail_parts(const char* op, std::initializer_list<Part> parts);
template <class... Parts>
[[noreturn]] void fail(const char* op, const Parts&... parts) {
  fail_parts(op, {Part(parts)...});
}

/// Throws Error if the number is negative or NaN.
template <class Number>
void not_negative(const char* op, const char* name, Number value) {
  if (!(value >= 0)) fail(op, name, " is ", value, ": it must not be negative");
}

/// stored(op, "x", x): x must be defined.
[[noreturn, gnu::cold]] void fail_undefined(const char* op, const char* name);
inline void stored(const char* op, const char* name, const Tensor& x) {
  if (!x.defined()) fail_undefined(op, name);
}

/// defined(op, "a", a, "b", b): no argument may be undefined or int8. The checks below include this one.
[[noreturn, gnu::cold]] void fail_int8(const char* op, const char* name, const Tensor& x);
template <class... Others>
[[gnu::always_inline]] inline void defined(const char* op, const char* name, const Tensor& x, const Others&... others) {
  stored(op, name, x);
  if (x.dtype() == int8) fail_int8(op, name, x);
  if constexpr (sizeof...(others) > 0) defined(op, others...);
}

/// defined() for each tensor of a list: each_defined(op, "part", parts) names "part 0", "part 1" ….
inline void each_defined(const char* op, const char* name, const std::vector<Tensor>& all) {
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i].defined() || all[i].dtype() == int8)
      defined(op, (std::string(name) + ' ' + std::to_string(i)).c_str(), all[i]);
}

[[noreturn, gnu::cold]] void fail_axis(const char* op, const Shape& shape, int axis);
/// Checks the axis; returns it as a number >= 0.
inline int axis(const char* op, const Shape& shape, int axis) {
  const int rank = shape.rank();
  if (axis < -rank || axis >= rank) fail_axis(op, shape, axis);
  return axis < 0 ? axis + rank : axis;
}
inline int axis(const char* op, const Tensor& x, int axis) {
  defined(op, "x", x);
  return check::axis(op, x.shape(), axis);
}

inline constexpr const char* floating_types = "bfloat16, float32 or float64";
inline void floating(const char* op, const char* name, const Tensor& x) {
  defined(op, name, x);
  if (!is_floating(x.dtype()))
    fail(op, name, " is ", x.dtype(), ": it must be ", floating_types, "; convert it with .to(float32)");
}

inline void dtype(const char* op, const char* name, const Tensor& x, DType t) {
  defined(op, name, x);
  if (x.dtype() != t) fail(op, name, " is ", x.dtype(), ": it must be ", t);
}

inline void same_dtype(const char* op, const char* a_name, const Tensor& a, const char* b_name, const Tensor& b) {
  defined(op, a_name, a, b_name, b);
  if (a.dtype() != b.dtype())
    fail(op, a_name, " is ", a.dtype(), ", ", b_name, " is ", b.dtype(),
         ": both must have one type; convert one with .to(", promote(a.dtype(), b.dtype()), ')');
}

inline void shape(const char* op, const char* name, const Tensor& x, const Shape& s) {
  defined(op, name, x);
  if (x.shape() != s) fail(op, name, " has shape ", x.shape(), ": it must be ", s);
}

/// NumPy's rule: sizes are compared from the right, and must be equal or 1.
Shape broadcast_unequal(const char* op, const Shape& a, const Shape& b);
inline Shape broadcast(const char* op, const Shape& a, const Shape& b) {
  return a == b ? a : broadcast_unequal(op, a, b);
}

}  // namespace fit::check
