#pragma once
#include "fit/error.hpp"
#include "fit/shape.hpp"

namespace fit {

/// Operations don't compute in int8: the fallback if the checks of arguments missed it.
[[noreturn]] inline void fail_int8() {
  throw Error("[dtype] int8 holds weights and is not computed with: convert it with .to(float32)");
}

/// Calls f with a zero of the C++ type of t, which is not int8: dispatch(x.dtype(), [&](auto zero) { using T =
/// decltype(zero); ... }).
template <class F>
void dispatch(DType t, F&& f) {
  switch (t) {
    case DType::boolean:
      return f(bool{});
    case DType::int8:
      fail_int8();
    case DType::int64:
      return f(std::int64_t{});
    case DType::bfloat16:
      return f(BFloat16{});
    case DType::float32:
      return f(float{});
    case DType::float64:
      return f(double{});
  }
}

/// Same for all types, int8 included.
template <class F>
void dispatch_stored(DType t, F&& f) {
  t == DType::int8 ? f(std::int8_t{}) : dispatch(t, f);
}

/// Same for floating types; the caller has checked that t is floating.
template <class F>
void dispatch_floating(DType t, F&& f) {
  t == DType::float64 ? f(double{}) : t == DType::float32 ? f(float{}) : f(BFloat16{});
}

/// Same for the types of kernels, or their floating types: bfloat16 was converted to float32 before.
template <class F>
void dispatch_compute(DType t, F&& f) {
  if (t == DType::bfloat16) throw Error("[dispatch] bfloat16 was not converted to float32: a fault of this library");
  if (t == DType::int8) fail_int8();
  t == DType::boolean   ? f(bool{})
  : t == DType::int64   ? f(std::int64_t{})
  : t == DType::float32 ? f(float{})
                        : f(double{});
}
template <class F>
void dispatch_compute_floating(DType t, F&& f) {
  if (t == DType::bfloat16) throw Error("[dispatch] bfloat16 was not converted to float32: a fault of this library");
  t == DType::float64 ? f(double{}) : f(float{});
}

}  // namespace fit
