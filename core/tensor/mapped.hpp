#pragma once
#include "fit/tensor.hpp"

namespace fit {

/// A tensor of the elements that begin at byte `offset` of an open file, which may be closed after. Pages of the file
/// are read when they are first asked for; what is written to the tensor is the process's own, a page at a time, and
/// never reaches the file. Undefined where the system can't map the file or the elements don't begin at a multiple of
/// their size: they are to be read then.
Tensor mapped(int descriptor, std::int64_t offset, const Shape& shape, DType dtype);

}  // namespace fit
