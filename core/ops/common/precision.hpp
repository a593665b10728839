#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/graph/autocast.hpp"
#include "fit/ops/ops.hpp"

// How operations compute with bfloat16: each operation states its Precision once.
namespace fit {

/// How an operation computes with bfloat16 operands. The part after "or" applies under Autocast(bfloat16).
enum class Precision {
  native,             ///< reads and writes bfloat16 directly
  native_or_float32,  ///< native; under Autocast computes and returns float32: exponentials, logarithms, sums
  rounded,            ///< computes in float32, rounds its results once
  rounded_or_native,  ///< rounded; under Autocast native: compositions of matrix products
  float32             ///< rounded; under Autocast returns float32: softmax, norms, losses
};

/// The type in which the operation computes, for operands of type t.
inline DType compute_dtype(Precision p, DType t) {
  if (t != bfloat16 || p == Precision::native) return t;
  if (p == Precision::native_or_float32) return autocast_dtype() == bfloat16 ? float32 : bfloat16;
  if (p == Precision::rounded_or_native) return autocast_dtype();
  return float32;
}

/// The type of its results.
inline DType result_dtype(Precision p, DType t) {
  const bool keeps_float32 = p == Precision::native_or_float32 || p == Precision::float32;
  return t == bfloat16 && keeps_float32 && autocast_dtype() == bfloat16 ? fit::float32 : t;
}

inline bool is_bfloat16(const Tensor& x) { return x.defined() && x.dtype() == bfloat16; }

/// Converts bfloat16 to float32; other types and undefined tensors stay. The gradient flows through.
inline Tensor to_float32(const Tensor& x) { return is_bfloat16(x) ? x.to(float32) : x; }

/// Rounds float32 to bfloat16; other tensors stay.
inline Tensor to_bfloat16(Tensor y) { return y.defined() && y.dtype() == float32 ? y.to(bfloat16) : y; }
inline std::vector<Tensor> to_bfloat16(std::vector<Tensor> all) {
  for (Tensor& y : all) y = to_bfloat16(std::move(y));
  return all;
}

namespace detail {

/// The decisions of with_precision() for one call.
class PrecisionGate {
 public:
  PrecisionGate(Precision p, const Inputs& operands) {
    if (compute_dtype(p, bfloat16) == bfloat16) return;
    DType t = bfloat16;
    for (int i = 0; i < operands.size(); ++i) {
      converts_ |= is_bfloat16(operands[i]);
      if (operands[i].defined()) t = promote(t, operands[i].dtype());
    }
    rounds_ = converts_ && result_dtype(p, t) == bfloat16;
  }
  bool converts() const { return converts_; }
  template <class Y>
  Y result(Y y) const {
    if (!rounds_) return y;
    return to_bfloat16(std::move(y));
  }

 private:
  bool converts_ = false, rounds_ = false;
};

template <std::size_t N, class Body, std::size_t... I>
auto with_precision(Precision p, const Inputs::Ref (&x)[N], const Body& body, std::index_sequence<I...>) {
  const PrecisionGate gate(p, {x[I]...});
  Tensor converted[N];
  if (gate.converts())
    for (std::size_t i = 0; i < N; ++i) converted[i] = to_float32(*x[i].tensor);
  return gate.result(body((gate.converts() ? converted[I] : *x[I].tensor)...));
}

}  // namespace detail

/// All operations handle bfloat16 through this function. If p requires float32, calls body(x...) with converted
/// operands, and rounds the results to bfloat16. It does not round if an operand is float32 or float64. Operands may be
/// undefined. body returns a Tensor or a vector of tensors.
///
///     return with_precision(Precision::float32, {x, weight}, [&](const Tensor& x, const Tensor& weight) {
///       return record(…);
///     });
template <std::size_t N, class Body>
auto with_precision(Precision p, const detail::Inputs::Ref (&operands)[N], const Body& body) {
  return detail::with_precision(p, operands, body, std::make_index_sequence<N>());
}
/// Same for a vector of operands, which body takes as a vector.
template <class V, class Body, class = std::enable_if_t<std::is_same_v<V, std::vector<Tensor>>>>
auto with_precision(Precision p, const V& operands, const Body& body) {
  const detail::PrecisionGate gate(p, operands);
  if (!gate.converts()) return body(operands);
  V converted;
  converted.reserve(operands.size());
  for (const Tensor& x : operands) converted.push_back(to_float32(x));
  return gate.result(body(converted));
}

}  // namespace fit
