// Copies: clone() and to().
#include "kernels/copy.hpp"

#include "fit/ops/ops.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

Tensor Tensor::clone() const {
  check::stored("clone", "x", *this);
  Tensor y = empty(shape(), dtype());
  kernels::copy(y.fresh<char>(), raw(), numel() * size_of(dtype()));
  return record("clone", {*this}, std::move(y), keep::nothing, [](Backward& b) { b.give(0, b.take_dy()); });
}

Tensor Tensor::to(DType target) const {
  check::stored("to", "x", *this);
  if (dtype() == target) return *this;
  Tensor y = empty(shape(), target);
  dispatch_stored(dtype(), [&](auto from) {
    dispatch_stored(target, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      run_unary<To, From>(y, *this, [](To* out, const From* x, std::int64_t n) {
        if constexpr (std::is_same_v<From, std::int8_t> || std::is_same_v<To, std::int8_t> || std::is_same_v<To, From>)
          for (std::int64_t i = 0; i < n; ++i) out[i] = convert<To>(x[i]);
        else
          kernels::convert_run(out, x, n);
      });
    });
  });
  // dx = dy; give() converts to x's type
  return record("to", {*this}, std::move(y), keep::nothing, [](Backward& b) { b.give(0, b.take_dy()); });
}

}  // namespace fit
