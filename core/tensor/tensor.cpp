#include "fit/tensor/tensor.hpp"

#include <cmath>

#include "base/poison.hpp"
#include "fit/base/memory.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace detail {

// A debugger calls it: this links it into every program.
[[gnu::used]] static const auto shown = &fit_show;

// Sanitizers see an access behind the elements: blocks do not touch.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t guard = 64;
#else
constexpr std::size_t guard = 0;
#endif

Storage* new_storage(std::size_t bytes) {
  constexpr std::size_t header = 64;
  static_assert(sizeof(Storage) <= header);
  const SizeClass size = size_class(header + bytes + guard);
  void* block = acquire(size);
  Storage* s = new (block) Storage;
  s->size = size;
  s->data = static_cast<char*>(block) + header;
  // The cache unpoisons the whole block when it gets it back.
  FIT_POISON(static_cast<char*>(s->data) + bytes, size.capacity - header - bytes);
  return s;
}

void forget_copy(Storage& s) noexcept {
  if (!s.copy.load(std::memory_order_relaxed)) return;  // an atomic exchange is expensive
  Storage* const copy = s.copy.exchange(nullptr, std::memory_order_acq_rel);
  if (copy && drop(copy->refs)) free_storage(copy);
}

TensorImpl* new_impl(Storage* storage, const Shape& shape, DType dtype) {
  void* block = nullptr;
  try {
    block = acquire(size_class(sizeof(TensorImpl)));
  } catch (...) {
    if (drop(storage->refs)) free_storage(storage);
    throw;
  }
  return new (block) TensorImpl(storage, shape, dtype);
}

}  // namespace detail

bool Scalar::is_integer() const {
  // An unsigned integer above INT64_MAX was converted to a negative number.
  if (!is_floating(dtype_)) return !(value_ > 0 && whole_ < 0);
  return value_ == std::floor(value_) && value_ >= -0x1p63 && value_ < 0x1p63;
}

std::int64_t Scalar::to_integer(const char* op) const {
  if (is_integer()) return is_floating(dtype_) ? static_cast<std::int64_t>(value_) : whole_;
  if (value_ != std::floor(value_))
    check::fail(op, "the number ", value_,
                " is not whole and the tensor is not floating: convert the tensor with .to(float32)");
  check::fail(op, "the number ", value_, " does not fit int64: it must be in -2^63 … 2^63 - 1");
}

void Tensor::throw_undefined() {
  throw Error(
      "[tensor] an undefined tensor was used: give it a value first (zeros, tensor, ...); a parametrised "
      "parameter has its own in value()");
}

void Tensor::throw_dtype(DType asked) const {
  check::fail("data", "the tensor is ", dtype(), ", ", asked, " was asked for: convert it with .to(", asked, ")");
}

[[gnu::flatten]] Tensor Tensor::empty(const Shape& shape, DType dtype) {
  constexpr std::int64_t max_bytes = std::int64_t{1} << 46;  // above the address space of a process on current machines
  if (shape.numel() > max_bytes / 8 && shape.numel() > max_bytes / size_of(dtype))  // the first test is a constant
    check::fail("tensor", "shape ", shape, " in ", dtype, " takes more than ", max_bytes,
                " bytes: more than a machine can address");
  detail::Storage* s = detail::new_storage(static_cast<std::size_t>(shape.numel() * size_of(dtype)));
  return Tensor::adopt(detail::new_impl(s, shape, dtype));
}

Tensor Tensor::alias(const Shape& shape) const {
  detail::hold(get().storage->refs);
  return Tensor::adopt(detail::new_impl(impl_->storage, shape, impl_->dtype));
}

void Tensor::fail_size(int axis) const {
  check::stored("size", "x", *this);
  check::fail_axis("size", shape(), axis);
}

Tensor Tensor::detach() const {
  Tensor y = alias(shape());
  y.impl_->cut = impl_->node ? detail::Cut::detach : impl_->cut;
  y.impl_->cut_at = impl_->node ? "" : impl_->cut_at;
  if (impl_->loss_terms) detail::add_loss_terms(*y.impl_, *impl_->loss_terms);
  return y;
}

double Tensor::item_double() const {
  if (numel() != 1) check::fail("item", "the tensor has shape ", shape(), ": it must have one element");
  double v = 0;
  dispatch_stored(dtype(), [&](auto t) { v = static_cast<double>(data<decltype(t)>()[0]); });
  return v;
}

std::int64_t Tensor::item_int(std::int64_t low, std::int64_t high) const {
  const double value = item_double();
  if (value != std::floor(value)) check::fail("item", "the number ", value, " is not whole: ask for item<double>()");
  const std::int64_t v = dtype() == DType::int64 ? data<std::int64_t>()[0] : Scalar(value).to_integer("item");
  if (v < low || v > high)
    check::fail("item", "the number ", v, " does not fit the type asked for: it must be in ", low, " … ", high,
                "; item<std::int64_t>() or item<double>() holds it");
  return v;
}

}  // namespace fit
