#pragma once
#include <cmath>

#include "tensor/check.hpp"

namespace fit::optim {

inline void check_not_negative(const char* op, const char* name, double value) {
  check::not_negative(op, name, value);
  if (std::isinf(value)) check::fail(op, name, " is ", value, ": it must be finite");
}

inline void check_share(const char* op, const char* name, double value) {
  if (!(value >= 0 && value < 1)) check::fail(op, name, " is ", value, ": it must be at least 0 and less than 1");
}

}  // namespace fit::optim
