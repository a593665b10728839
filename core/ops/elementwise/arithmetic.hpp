#pragma once
#include <cstdint>
#include <type_traits>

#include "ops/elementwise/elementwise.hpp"

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

/// Calls run(f, zero): f computes on runs of type t (floating or int64; float for bfloat16), and zero has type t.
template <class Op, class Run>
void with_kernel(DType t, const Run& run) {
  if (t == DType::float32)
    return run(Op::template kernel<float>(), float{});
  else if (t == DType::float64)
    return run(Op::template kernel<double>(), double{});
  else if (t == DType::bfloat16)
    return run(Op::template kernel<float>(), BFloat16{});
  if constexpr (!std::is_same_v<Op, Div>)
    run(each_pair<std::int64_t, std::int64_t, std::int64_t>([](auto a, auto b) { return Op::integers(a, b); }),
        std::int64_t{});
}

/// Whether the kernel for a result of type z reads operands of type t without a conversion.
inline bool readable_as(DType z, DType t) { return t == z || (z == float32 && t == bfloat16); }

/// z = op(a, b), both readable_as z's type. z may be a or b.
template <class Op>
void compute(Tensor& z, const Tensor& a, const Tensor& b) {
  const auto mixed = [&](auto x, auto y) {
    run_binary<float, decltype(x), decltype(y)>(z, a, b, Op::template kernel<float>());
  };
  const DType t = z.dtype();
  if (a.dtype() == t && b.dtype() == t)
    return with_kernel<Op>(t, [&](const auto& f, auto zero) {
      using T = decltype(zero);
      run_binary<T, T, T>(z, a, b, f);
    });
  if (a.dtype() == t) return mixed(0.f, BFloat16{});
  b.dtype() == t ? mixed(BFloat16{}, 0.f) : mixed(BFloat16{}, BFloat16{});
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
