#pragma once
#include <cstdint>

#include "kernels/isa.hpp"

// Functions of one number and their derivatives in one pass, float and double. Errors in units in the last place: abs,
// relu 0, leaky_relu 1/2, tanh 2, sigmoid 3, softplus 3 (float), 2 (double); gelu and silu 2 epsilon (1 + |x|). elu and
// the derivatives are rounded by operation, with e^x, expm1 and sigmoid as math.hpp says.
namespace fit::kernels {

// clang-format off
#define FIT_ACTIVATIONS(X) \
  X(abs, Abs)              \
  X(tanh, Tanh)            \
  X(sigmoid, Sigmoid)      \
  X(relu, Relu)            \
  X(leaky_relu, LeakyRelu) \
  X(elu, Elu)              \
  X(gelu, Gelu)            \
  X(gelu_tanh, GeluTanh)   \
  X(silu, Silu)            \
  X(softplus, Softplus)
// clang-format on

enum class Activation {
#define X(name, Op) name,
  FIT_ACTIVATIONS(X)
#undef X
};

template <class T>
struct ActivationKernels {
  // y[i] = f(x[i]), with f's parameter p (a slope, say) if it has one. y may be x.
  void (*forward)(T* y, const T* x, std::int64_t n, T p);
  // dx[i] = dy[i] f'(v[i]), where v is the x or the y of forward: ops/activation.cpp says which. dx may be dy or v.
  void (*backward)(T* dx, const T* dy, const T* v, std::int64_t n, T p);
};

template <class IsaTag, class T>
const ActivationKernels<T>* activation_table();

template <class T>
const ActivationKernels<T>& activation(Activation f) {
  return FIT_KERNELS(activation_table, T)[static_cast<int>(f)];
}

}  // namespace fit::kernels
