#pragma once
#include "fit/shape.hpp"

namespace fit {

/// Calls f with a value of the C++ type of t: dispatch(x.dtype(), [&](auto zero) { using T = decltype(zero); ... }).
template <class F>
void dispatch(DType t, F&& f) {
  switch (t) {
    case DType::boolean:
      return f(bool{});
    case DType::int64:
      return f(std::int64_t{});
    case DType::float32:
      return f(float{});
    case DType::float64:
      return f(double{});
  }
}

/// The same for floating types; the caller has checked that t is one.
template <class F>
void dispatch_floating(DType t, F&& f) {
  t == DType::float64 ? f(double{}) : f(float{});
}

}  // namespace fit
