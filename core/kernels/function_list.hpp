#pragma once
#include <cstdint>
#include <type_traits>

// The unary functions by their names. Their formulas are in kernels/functions.hpp.
namespace fit {
class Tensor;
}

namespace fit::kernels {

// Functions with the signature `Tensor name(const Tensor& x)`; with a parameter or other types; step functions.
#define FIT_SIMPLE_FUNCTIONS(X) \
  X(exp, Exp)                   \
  X(log, Log)                   \
  X(log1p, Log1p)               \
  X(log2, Log2)                 \
  X(log10, Log10)               \
  X(expm1, Expm1)               \
  X(sqrt, Sqrt)                 \
  X(rsqrt, Rsqrt)               \
  X(sin, Sin)                   \
  X(cos, Cos)                   \
  X(tan, Tan)                   \
  X(asin, Asin)                 \
  X(acos, Acos)                 \
  X(atan, Atan)                 \
  X(sinh, Sinh)                 \
  X(cosh, Cosh)                 \
  X(asinh, Asinh)               \
  X(acosh, Acosh)               \
  X(atanh, Atanh)               \
  X(tanh, Tanh)                 \
  X(erf, Erf)                   \
  X(sigmoid, Sigmoid)           \
  X(log_sigmoid, LogSigmoid)    \
  X(silu, Silu)                 \
  X(mish, Mish)                 \
  X(softsign, Softsign)         \
  X(hardtanh, Hardtanh)         \
  X(hardsigmoid, Hardsigmoid)   \
  X(hardswish, Hardswish)       \
  X(selu, Selu)                 \
  X(relu, Relu)                 \
  X(relu6, Relu6)
#define FIT_OTHER_FUNCTIONS(X) \
  X(abs, Abs)                  \
  X(leaky_relu, LeakyRelu)     \
  X(elu, Elu)                  \
  X(celu, Celu)                \
  X(softplus, Softplus)        \
  X(gelu, Gelu)                \
  X(gelu_tanh, GeluTanh)
#define FIT_STEP_FUNCTIONS(X) X(floor, Floor) X(ceil, Ceil) X(round, Round) X(trunc, Trunc) X(sign, Sign)
#define FIT_FUNCTIONS(X) FIT_SIMPLE_FUNCTIONS(X) FIT_OTHER_FUNCTIONS(X) FIT_STEP_FUNCTIONS(X)

template <class T>
struct FunctionKernels {
  // y[i] = f(x[i], p). y may be x.
  void (*forward)(T* y, const T* x, std::int64_t n, T p);
  // dx[i] = df(dy[i], v[i], p). dx may be dy or v.
  void (*backward)(T* dx, const T* dy, const T* v, std::int64_t n, T p);
};

namespace function_kernels {
#define X(name, Formula)           \
  template <class IsaTag, class T> \
  const FunctionKernels<T>& name();
FIT_FUNCTIONS(X)
#undef X
}  // namespace function_kernels

/// All that belongs to a function, defined in ops/elementwise/functions.cpp. Operations take a Function, not a number
/// of it: a program that calls exp() does not contain the kernels of erf().
struct Function {
  const char *name, *backward_name;
  bool from_output;  // whether df() takes y
  bool float32;      // whether Autocast computes it in float32
  const FunctionKernels<float>& (*float_kernels)();
  const FunctionKernels<double>& (*double_kernels)();
  Tensor (*ddf)(const Tensor& v, double p);

#define X(name, Formula) static const Function name;
  FIT_FUNCTIONS(X)
#undef X
};

/// The kernels of f on this processor.
template <class T>
const FunctionKernels<T>& function(const Function& f) {
  if constexpr (std::is_same_v<T, float>)
    return f.float_kernels();
  else
    return f.double_kernels();
}

}  // namespace fit::kernels
