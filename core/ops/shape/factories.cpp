// Tensors from nested braces, vectors and rules.
#include <algorithm>
#include <cmath>

#include "kernels/copy.hpp"
#include "ops/elementwise/arithmetic.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
// ---- from nested braces -------------------------------------------------------------------------------------------

// Reads nested braces: the shape from the first entries, the type from all entries.
struct NestedReader {
  static DType type_of(const Nested& n) {
    if (!n.list_) return is_floating(n.dtype_) ? DType::float32 : n.dtype_;
    if (n.rows_.empty()) return DType::float32;
    DType t = DType::boolean;
    for (const Nested& row : n.rows_) t = promote(t, type_of(row));
    return t;
  }

  static Shape shape_of(const Nested& n) {
    std::vector<std::int64_t> sizes;
    for (const Nested* at = &n; at->list_; at = &at->rows_[0]) {
      sizes.push_back(static_cast<std::int64_t>(at->rows_.size()));
      if (at->rows_.empty()) break;
    }
    return sizes;
  }

  // Writes the numbers of `n` in order. `path` is the position of `n`, for errors.
  template <class T>
  static void read(const Nested& n, const Shape& shape, int axis, const std::string& path, T*& out) {
    const bool number = axis == shape.rank();
    if (n.list_ == number || (n.list_ && static_cast<std::int64_t>(n.rows_.size()) != shape[axis]))
      check::fail("tensor", "the entry at ", path, " is ", describe(n), ", the first of its level is ",
                  number ? "a number" : "a list of " + std::to_string(shape[axis]),
                  ": all rows of one level must have one length");
    if (number) {
      *out++ = number_as<T>("tensor", n.value_);
      return;
    }
    for (std::size_t i = 0; i < n.rows_.size(); ++i)
      read(n.rows_[i], shape, axis + 1, path + "[" + std::to_string(i) + "]", out);
  }

 private:
  static std::string describe(const Nested& n) {
    return n.list_ ? "a list of " + std::to_string(n.rows_.size()) : "a number";
  }
};

Nested::Nested(std::initializer_list<Nested> rows) : rows_(rows), list_(true) {}

Tensor tensor(const Nested& values) { return tensor(values, NestedReader::type_of(values)); }

Tensor tensor(const Nested& values, DType dtype) {
  Tensor y = Tensor::empty(NestedReader::shape_of(values), dtype);
  dispatch_stored(dtype, [&](auto kind) {
    using T = decltype(kind);
    T* out = y.fresh<T>();
    NestedReader::read(values, y.shape(), 0, "", out);
  });
  return y;
}

// ---- from vectors -------------------------------------------------------------------------------------------------

namespace {
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape) {
  if (static_cast<std::int64_t>(values.size()) != shape.numel())
    check::fail("tensor", "the vector has ", values.size(), " values, shape ", shape, " has ", shape.numel(),
                ": the counts must be equal");
  Tensor y = Tensor::empty(shape, dtype_of<T>());
  std::copy(values.begin(), values.end(), y.fresh<T>());
  return y;
}
}  // namespace

Tensor tensor(const std::vector<float>& values, const Shape& shape) { return from_vector(values, shape); }
Tensor tensor(const std::vector<double>& values, const Shape& shape) { return from_vector(values, shape); }
Tensor tensor(const std::vector<std::int64_t>& values, const Shape& shape) { return from_vector(values, shape); }
Tensor tensor(const std::vector<bool>& values, const Shape& shape) { return from_vector(values, shape); }

// ---- by rule ------------------------------------------------------------------------------------------------------

Tensor full(const Shape& shape, Scalar value, DType dtype) {
  Tensor y = Tensor::empty(shape, dtype);
  dispatch_stored(dtype, [&](auto kind) {
    using T = decltype(kind);
    const T v = number_as<T>("full", value);
    T* const p = y.fresh<T>();
    parallel_for(y.numel(), 1 << 15, [&](std::int64_t i, std::int64_t end) { std::fill(p + i, p + end, v); });
  });
  return y;
}

Tensor zeros(const Shape& shape, DType dtype) {
  Tensor y = Tensor::empty(shape, dtype);
  kernels::zero(y.fresh<char>(), y.numel() * size_of(dtype));
  return y;
}

Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }
Tensor zeros_like(const Tensor& x) {
  check::defined("zeros_like", "x", x);
  return zeros(x.shape(), x.dtype());
}

Tensor ones_like(const Tensor& x) {
  check::defined("ones_like", "x", x);
  return full(x.shape(), 1, x.dtype());
}

Tensor full_like(const Tensor& x, Scalar value) {
  check::defined("full_like", "x", x);
  return full(x.shape(), value, x.dtype());
}

namespace {

constexpr double arange_limit = 1e15;  // elements

[[noreturn]] void fail_arange(Scalar start, Scalar stop, Scalar step) {
  check::fail("arange", "start ", start.value(), ", stop ", stop.value(), ", step ", step.value(),
              ": all must be finite, the step not 0, and there must be fewer than 1e15 of them");
}

/// The number of elements start, start + step, … before stop. Unsigned differences can't overflow.
std::int64_t count_of(std::int64_t start, std::int64_t stop, std::int64_t step) {
  const auto low = static_cast<std::uint64_t>(start), high = static_cast<std::uint64_t>(stop);
  const auto size = static_cast<std::uint64_t>(step);
  if (step > 0 ? stop <= start : stop >= start) return 0;
  const std::uint64_t more = step > 0 ? (high - low - 1) / size : (low - high - 1) / (0 - size);
  return more < static_cast<std::uint64_t>(arange_limit) ? static_cast<std::int64_t>(more) + 1 : -1;
}

}  // namespace

Tensor arange(Scalar start, Scalar stop, Scalar step, DType dtype) {
  if (dtype == DType::boolean) check::fail("arange", "dtype is boolean: it must be a type of numbers");
  const bool integers = start.is_integer() && stop.is_integer() && step.is_integer();
  const double first = start.value(), by = step.value();
  const double span = std::max(0.0, std::ceil((stop.value() - first) / by));
  if (by == 0 || !std::isfinite(first) || !std::isfinite(stop.value()) || !std::isfinite(by) ||
      !(span < 2 * arange_limit))
    fail_arange(start, stop, step);
  const std::int64_t count =
      integers ? count_of(start.to_integer("arange"), stop.to_integer("arange"), step.to_integer("arange"))
               : static_cast<std::int64_t>(span);
  if (count < 0 || static_cast<double>(count) >= arange_limit) fail_arange(start, stop, step);
  Tensor y = Tensor::empty({count}, dtype);
  dispatch(dtype, [&](auto kind) {
    using T = decltype(kind);
    T* const p = y.fresh<T>();
    number_as<T>("arange", start);
    number_as<T>("arange", step);
    if (integers) {
      const std::int64_t a = start.to_integer("arange"), d = step.to_integer("arange");
      for (std::int64_t i = 0; i < count; ++i) p[i] = static_cast<T>(Add::integers(a, Mul::integers(i, d)));
    } else {
      if (count > 0) number_as<T>("arange", first + static_cast<double>(count - 1) * by);
      for (std::int64_t i = 0; i < count; ++i) p[i] = static_cast<T>(first + static_cast<double>(i) * by);
    }
  });
  return y;
}

Tensor arange(Scalar start, Scalar stop, Scalar step) {
  const bool floating = is_floating(start.dtype()) || is_floating(stop.dtype()) || is_floating(step.dtype());
  return arange(start, stop, step, floating ? float32 : int64);
}

Tensor arange(std::int64_t n) {
  check::not_negative("arange", "n", n);
  Tensor y = Tensor::empty({n}, int64);
  std::int64_t* const p = y.fresh<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) p[i] = i;
  return y;
}

Tensor linspace(double start, double stop, std::int64_t count, DType dtype) {
  check::not_negative("linspace", "count", count);
  if (!is_floating(dtype)) check::fail("linspace", "dtype is ", dtype, ": it must be ", check::floating_types);
  Tensor y = Tensor::empty({count}, dtype);
  // (stop - start) / 2 can't overflow; it has half as many steps.
  const double step = count > 1 ? (stop / 2 - start / 2) / (static_cast<double>(count - 1) / 2) : 0;
  dispatch_floating(dtype, [&](auto kind) {
    using T = decltype(kind);
    const auto finite = [](double v) { return std::isfinite(static_cast<double>(static_cast<T>(v))); };
    if (!finite(start) || !finite(stop))
      check::fail("linspace", "start is ", start, ", stop ", stop, ": both must be finite in ", dtype);
    T* const p = y.fresh<T>();
    // Computed from the nearer end, so that both ends are exact and the numbers are symmetric.
    for (std::int64_t i = 0, last = count - 1; i < count; ++i)
      p[i] = static_cast<T>(2 * i <= last ? start + static_cast<double>(i) * step
                                          : stop - static_cast<double>(last - i) * step);
  });
  return y;
}

Tensor eye(std::int64_t n, std::int64_t m, DType dtype) {
  if (m == -1) m = n;
  Tensor y = zeros({n, m}, dtype);
  dispatch(dtype, [&](auto kind) {
    using T = decltype(kind);
    for (std::int64_t i = 0; i < std::min(n, m); ++i) y.fresh<T>()[i * m + i] = T(1);
  });
  return y;
}

Tensor eye(std::int64_t n, DType dtype) { return eye(n, n, dtype); }

Tensor one_hot(const Tensor& ids, std::int64_t classes, DType dtype) {
  check::dtype("one_hot", "ids", ids, int64);
  if (classes < 0 || (classes == 0 && ids.numel() > 0))
    check::fail("one_hot", "classes is ", classes, ", ids has shape ", ids.shape(), ": classes must be positive");
  Tensor y = zeros(ids.shape().inserted(ids.rank(), classes), dtype);
  const auto id = ids.data<std::int64_t>();
  for (std::int64_t i = 0; i < id.size(); ++i)
    if (id[i] < 0 || id[i] >= classes)
      check::fail("one_hot", "the id at position ", i, " of ids ", ids.shape(), " is ", id[i], ": it must be in 0 … ",
                  classes - 1);
  dispatch(dtype, [&](auto kind) {
    using T = decltype(kind);
    T* const p = y.fresh<T>();
    for (std::int64_t i = 0; i < id.size(); ++i) p[i * classes + id[i]] = T(1);
  });
  return y;
}

}  // namespace fit
