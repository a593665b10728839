#pragma once
#include "fit/base/shape.hpp"

namespace fit {

/// The checks of arguments, or the conversions of the caller, have missed t.
[[noreturn, gnu::cold]] void fail_dispatch(DType t);

/// dispatch(x.dtype(), [&](auto zero) { using T = decltype(zero); ... }) calls f with a zero of the C++ type of t,
/// which is one of T. It is inlined: each small operation passes here.
template <class... T>
struct DispatchAmong {
  template <class F>
  [[gnu::always_inline]] void operator()(DType t, const F& f) const {
    if (!((t == dtype_of<T>() && (f(T{}), true)) || ...)) fail_dispatch(t);
  }
};

/// All types but int8.
inline constexpr DispatchAmong<bool, std::int64_t, BFloat16, float, double> dispatch;
/// All types.
inline constexpr DispatchAmong<bool, std::int8_t, std::int64_t, BFloat16, float, double> dispatch_stored;
/// The floating types.
inline constexpr DispatchAmong<float, BFloat16, double> dispatch_floating;
/// The types of kernels, or their floating types: a narrow type was converted before.
inline constexpr DispatchAmong<bool, std::int64_t, float, double> dispatch_compute;
inline constexpr DispatchAmong<float, double> dispatch_compute_floating;

}  // namespace fit
