#pragma once
#include <cstdint>
#include <type_traits>

#include "ops/elementwise/elementwise.hpp"
#include "tensor/dispatch.hpp"

// The four arithmetic operations, for their out-of-place and in-place versions.
namespace fit {

// An operation: its kernel for floating types and its formula for int64.
#define FIT_ARITHMETIC(Name, kernel_name, formula)                                     \
  struct Name {                                                                        \
    static constexpr const char* name = #kernel_name;                                  \
    template <class T>                                                                 \
    static kernels::Binary<T> kernel() {                                               \
      return kernels::elementwise<T>().kernel_name;                                    \
    }                                                                                  \
    static std::int64_t integers(std::uint64_t a, std::uint64_t b) { return formula; } \
  };
FIT_ARITHMETIC(Add, add, wrap(a + b))
FIT_ARITHMETIC(Sub, sub, wrap(a - b))
FIT_ARITHMETIC(Mul, mul, wrap((a * b)))
#undef FIT_ARITHMETIC

// A quotient is floating: int64 does not get here.
struct Div {
  static constexpr const char* name = "div";
  template <class T>
  static kernels::Binary<T> kernel() {
    return kernels::elementwise<T>().div;
  }
};

/// Calls run(f, zero): f computes on runs of type t (floating or int64; in the type in which kernels compute), and zero
/// has type t.
template <class Op, class Run>
void with_kernel(DType t, const Run& run) {
  if (is_floating(t))
    return dispatch_floating(t, [&](auto zero) { run(Op::template kernel<AccT<decltype(zero)>>(), zero); });
  if constexpr (!std::is_same_v<Op, Div>)
    run(each_pair<std::int64_t, std::int64_t, std::int64_t>([](auto a, auto b) { return Op::integers(a, b); }),
        std::int64_t{});
}

/// Whether the kernel for a result of type z reads operands of type t without a conversion.
inline bool readable_as(DType z, DType t) { return t == z || z == acc_dtype(t); }

/// z = op(a, b), both readable_as z's type. z may be a or b.
template <class Op>
void compute(Tensor& z, const Tensor& a, const Tensor& b) {
  const DType t = z.dtype();
  if (a.dtype() == t && b.dtype() == t)
    return with_kernel<Op>(t, [&](const auto& f, auto zero) {
      using T = decltype(zero);
      run_binary<T, T, T>(z, a, b, f);
    });
  dispatch_floating(a.dtype(), [&](auto x) {
    dispatch_floating(b.dtype(), [&](auto y) {
      using X = decltype(x);
      using Y = decltype(y);
      using W = AccT<X>;
      if constexpr (std::is_same_v<W, AccT<Y>> && (narrow<X> || narrow<Y>))
        run_binary<W, X, Y>(z, a, b, Op::template kernel<W>());
    });
  });
}

/// z = op(a, s), or op(s, a). a has z's type and may be z.
template <class Op>
void compute(Tensor& z, const Tensor& a, Scalar s, bool number_first = false) {
  with_kernel<Op>(z.dtype(), [&](const auto& f, auto zero) {
    using T = decltype(zero);
    run_with_number<T, T>(z, a, number_as<AccT<T>>(Op::name, s), number_first, f);
  });
}

}  // namespace fit
