// Tensors from sizes, numbers and rules. Those from nested braces and vectors are in literal.cpp.
#include <algorithm>

#include "check.hpp"
#include "dispatch.hpp"
#include "fit/ops.hpp"
#include "fit/parallel.hpp"
#include "kernels/copy.hpp"

namespace fit {

Tensor full(const Shape& shape, Scalar value, DType dtype) {
  if (!is_floating(dtype)) value.whole("full");
  Tensor y = Tensor::empty(shape, dtype);
  dispatch(dtype, [&](auto kind) {
    using T = decltype(kind);
    T v;
    if constexpr (std::is_floating_point_v<T>)
      v = static_cast<T>(value.value());
    else
      v = static_cast<T>(value.whole("full"));
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
Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.dtype()); }
Tensor ones_like(const Tensor& x) { return full(x.shape(), 1, x.dtype()); }

}  // namespace fit
