#pragma once
#include "fit/base/shape.hpp"

namespace fit {

/// The checks of arguments, or the conversions of the caller, have missed t.
[[noreturn, gnu::cold]] void fail_dispatch(DType t);

/// Calls f with a zero of the C++ type of t, which is one of T: dispatch(x.dtype(), [&](auto zero) { using T =
/// decltype(zero); ... }).
template <class... T, class F>
void dispatch_among(DType t, const F& f) {
  if (!((t == dtype_of<T>() && (f(T{}), true)) || ...)) fail_dispatch(t);
}

/// All types but int8.
template <class F>
void dispatch(DType t, const F& f) {
  dispatch_among<bool, std::int64_t, BFloat16, float, double>(t, f);
}
/// All types.
template <class F>
void dispatch_stored(DType t, const F& f) {
  dispatch_among<bool, std::int8_t, std::int64_t, BFloat16, float, double>(t, f);
}
/// The floating types.
template <class F>
void dispatch_floating(DType t, const F& f) {
  dispatch_among<BFloat16, float, double>(t, f);
}
/// The types of kernels, or their floating types: bfloat16 was converted to float32 before.
template <class F>
void dispatch_compute(DType t, const F& f) {
  dispatch_among<bool, std::int64_t, float, double>(t, f);
}
template <class F>
void dispatch_compute_floating(DType t, const F& f) {
  dispatch_among<float, double>(t, f);
}

}  // namespace fit
