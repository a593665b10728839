#pragma once
#include <memory>

#include "fit/tensor/tensor.hpp"

namespace fit {

/// A tensor of elements that something else owns, without a copy: `owner` is destroyed when nothing uses them any more.
/// `data` must be aligned for the dtype.
inline Tensor foreign(void* data, const Shape& shape, DType dtype, std::unique_ptr<detail::ElementsOwner> owner) {
  detail::Storage* const s = detail::new_storage(0);
  s->data = data;
  s->owner = owner.release();
  return Tensor::adopt(detail::new_impl(s, shape, dtype));
}

}  // namespace fit
