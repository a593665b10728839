// Copies: clone() and to().
#include "kernels/copy.hpp"

#include "fit/ops.hpp"
#include "ops/elementwise.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

Tensor Tensor::clone() const {
  check::defined("clone", "x", *this);
  Tensor y = empty(shape(), dtype());
  kernels::copy(y.fresh<char>(), raw(), numel() * size_of(dtype()));
  return record("clone", {*this}, std::move(y), keep::nothing, [](Backward& b) { b.give(0, b.dy()); });
}

Tensor Tensor::to(DType target) const {
  check::defined("to", "x", *this);
  if (dtype() == target) return *this;
  Tensor y = empty(shape(), target);
  dispatch(dtype(), [&](auto from) {
    dispatch(target, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const From* x = data<From>().data();
      To* out = y.fresh<To>();
      parallel_for(numel(), elementwise_grain, [&](std::int64_t i, std::int64_t end) {
        for (; i < end; ++i) out[i] = convert<To>(x[i]);
      });
    });
  });
  // dx = dy, in x's type: give() converts
  return record("to", {*this}, std::move(y), keep::nothing, [](Backward& b) { b.give(0, b.dy()); });
}

}  // namespace fit
