#pragma once
#include "fit/tensor/tensor.hpp"

namespace fit {

/// Maps the elements at byte `offset` of an open file as a tensor. The file may be closed afterwards. A page is read at
/// its first access. A write copies its page (copy-on-write) and never reaches the file. Returns an undefined tensor if
/// the system can't map the file or if `offset` is misaligned for the dtype: the caller then reads the elements.
Tensor mapped(int descriptor, std::int64_t offset, const Shape& shape, DType dtype);

}  // namespace fit
