#pragma once
#include "base/acc_type.hpp"

namespace fit::kernels {

template <class T>
using SumOf = AccT<T>;  // the former name, which attention still uses

}  // namespace fit::kernels
