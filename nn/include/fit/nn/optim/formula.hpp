#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "fit/base/option.hpp"
#include "fit/base/shape.hpp"

namespace fit {
class Tensor;
}
namespace fit::optim {
template <class Options>
class GroupedOptimizer;
template <class Options>
struct Group;
}  // namespace fit::optim

// What the file of an optimiser consists of, besides its options: a specialisation of Formula, with
//
//   name, state_names       its name and those of its states, in errors and in saved files
//   options(list)           its options with their ranges, in the order of saved files
//   check()                 throws Error for options that do not go together; their ranges are checked before
//   states()                the states that the options need: bit k stands for state_names[k]
//   begin(count)            computes the numbers of this step
//   update<states>(p, g, s) changes the parameter p by its gradient g, and the states s[0], s[1] …
//
// An ElementwiseFormula is compiled for all vectors (nn/optim/fused_step.simd.cpp): V is a vector, which is read and
// written once; a number in the reference. It is rounded by operation. A TensorFormula needs whole tensors, for norms
// or products: V is a Tensor, and operations make new ones. Constants are computed in double and used in the elements'
// type. Kernels know no Tensor, so these files include none: include <fit/nn/optim/optim.hpp>.
namespace fit::optim::detail {

template <class Options>
struct Formula;

inline constexpr int max_states = 3;

/// The progress of an optimiser on one parameter.
struct StepCount {
  std::int64_t t = 1;        // the number of this step, from 1
  bool is_new = true;        // whether the states start with this step
  double* scalar = nullptr;  // a number that one step passes to the next, besides the states
};

/// What most optimisers do not need.
struct FormulaDefaults {
  static constexpr const char* scalar = nullptr;  // the name of StepCount::scalar
  void check() const {}
  void check_parameter(const std::string& /*name*/, const Tensor&) const {}
  static std::optional<Shape> state_shape(const Shape& parameter, int /*k*/) { return parameter; }
  void begin(const StepCount&) {}
};

/// `forms` are the sets of states that a step may use. If there are several, states() chooses.
template <class Options, unsigned... forms>
struct ElementwiseFormula : Options, FormulaDefaults {
  static constexpr bool on_tensors = false;
  static constexpr int first_kernel_state = 0;
  using Forms = std::integer_sequence<unsigned, forms...>;
  using Kernel = Formula<Options>;
  bool has_kernel() const { return true; }
  Kernel kernel() const { return static_cast<const Kernel&>(*this); }
  unsigned states() const { return (forms, ...); }
};

template <class Options, unsigned form>
struct TensorFormula : Options, FormulaDefaults {
  static constexpr bool on_tensors = true;
  using Kernel = void;
  bool has_kernel() const { return false; }  // if true, a group takes the step of kernel() instead
  unsigned states() const { return form; }
};

// ---- functions for formulas ---------------------------------------------------------------------------------------

/// A constant beside values of type V: in all lanes of a vector, as a number beside a Tensor.
template <class V, class = void>
struct Constant {
  static double of(double x) { return x; }
};
template <class V>
struct Constant<V, std::enable_if_t<std::is_arithmetic_v<V>>> {
  static V of(double x) { return static_cast<V>(x); }
};
template <class V>
struct Constant<V, std::void_t<typename V::value_type>> {
  static V of(double x) { return V(static_cast<typename V::value_type>(x)); }
};
template <class V>
inline auto constant(double x) {
  return Constant<V>::of(x);
}

// Those of vectors and tensors are found by their arguments. <cmath> would cost each user's file 5,000 lines.
inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline double sqrt(double x) { return __builtin_sqrt(x); }
inline double pow(double x, double exponent) { return __builtin_pow(x, exponent); }
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
inline T abs(T x) {
  return x < 0 ? -x : x;
}
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
inline T max(T a, T b) {
  return a < b ? b : a;
}
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
inline T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

/// Throws the Error "[op] a is 1, b 2: rule".
[[noreturn]] void refuse(const char* op, std::initializer_list<std::pair<const char*, double>> values,
                         const char* rule);

/// The 2-norm and the root mean square of all elements, in double.
double l2_norm(const Tensor& x);
double root_mean_square(const Tensor& x);
/// The distance from 1 to the next number of the elements' type.
double rounding_of(const Tensor& x);

// Weight decay as a part of the gradient, or decoupled (Loshchilov & Hutter 2019).
template <class V>
inline void decay_gradient(V& g, const V& p, double weight_decay) {
  if (weight_decay != 0) g = g + constant<V>(weight_decay) * p;
}
template <class V>
inline void decay_parameter(V& p, double lr, double weight_decay) {
  p = constant<V>(1 - lr * weight_decay) * p;
}

// Moves m towards g by a fraction `weight`, which is the same for all elements. The second form keeps a small g beside
// a large m, as PyTorch's lerp does: m + weight (g - m) would lose it.
template <class V>
inline V lerp(const V& m, const V& g, double weight) {
  return weight <= 0.5 ? m + constant<V>(weight) * (g - m) : g - (g - m) * constant<V>(1 - weight);
}

}  // namespace fit::optim::detail
