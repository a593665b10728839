#pragma once
#include <memory>
#include <optional>
#include <utility>

#include "fit/int8/int8.hpp"
#include "fit/nn/layer/layer.hpp"

namespace fit::nn::detail {

/// The layer that replaces the tensor of a computed Parameter, under the same name. The value is parametrization(x), or
/// x if `parametrization` is null. x is `original`, or the dequantised weights after quantisation.
class Parametrized final : public Layer {
 public:
  Parametrized(Parameter p, std::shared_ptr<UnaryLayer> by) : original(std::move(p)), parametrization(std::move(by)) {}
  explicit Parametrized(const Int8Matrix& w, std::shared_ptr<UnaryLayer> by = nullptr)
      : int8(w.bits() == 8 ? Buffer(w.values()) : Buffer()),
        int4(w.bits() == 4 ? Buffer(w.values()) : Buffer()),
        scale(w.scale()),
        parametrization(std::move(by)),
        activations(w.activations()),
        int8_matrix([](const Parametrized& p) {
          return Int8Matrix(p.numbers(), p.scale, p.activations, p.int4.defined() ? 4 : 8);
        }) {}
  FIT_FIELDS(original, int8, int4, scale, parametrization)

  /// The whole numbers of a quantised weight, in 8 or 4 bits.
  const Buffer& numbers() const { return int4.defined() ? int4 : int8; }
  bool quantized() const { return numbers().defined(); }
  Int8Matrix matrix() const { return int8_matrix(*this); }

  Parameter original;
  Buffer int8, int4, scale;
  std::shared_ptr<UnaryLayer> parametrization;
  Int8Activations activations = Int8Activations::floating;

 private:
  // A pointer, set by a quantised weight: a program without any contains no functions of an Int8Matrix.
  Int8Matrix (*int8_matrix)(const Parametrized& p) = nullptr;
};

/// Access to the Parametrized of a Parameter; null if the Parameter is an ordinary tensor.
struct ParametrizedOf {
  static const std::shared_ptr<Parametrized>& get(const Parameter& p) { return p.parametrized_; }
  static void set(Parameter& p, std::shared_ptr<Parametrized> by) {
    p = Parameter();
    p.parametrized_ = std::move(by);
  }
};

/// The matrix of a quantised parameter without a parametrization; else nothing.
inline std::optional<Int8Matrix> int8_of(const Parameter& p) {
  const auto& by = ParametrizedOf::get(p);
  if (!by || !by->quantized() || by->parametrization) return std::nullopt;
  return by->matrix();
}

/// Whether the parameter has no parametrization yet.
inline bool adaptable(const Parameter& p) { return !p.parametrized() || int8_of(p); }

}  // namespace fit::nn::detail
