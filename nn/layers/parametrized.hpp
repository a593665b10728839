#pragma once
#include <memory>
#include <optional>
#include <utility>

#include "fit/int8.hpp"
#include "fit/nn/layer.hpp"

namespace fit::nn::detail {

/// What a Parameter that is computed has in place of its tensor: listed under its name. It is computed from `original`
/// or, once it is quantised, from int8 and scale; and by `parametrization`, unless that is null.
class Parametrized final : public Layer {
 public:
  Parametrized(Parameter p, std::shared_ptr<UnaryLayer> by) : original(std::move(p)), parametrization(std::move(by)) {}
  explicit Parametrized(const Int8Matrix& w, std::shared_ptr<UnaryLayer> by = nullptr)
      : int8(w.values()), scale(w.scale()), parametrization(std::move(by)) {}
  FIT_FIELDS(original, int8, scale, parametrization)

  bool quantized() const { return int8.defined(); }
  Int8Matrix matrix() const { return {int8, scale}; }

  Parameter original;
  Buffer int8, scale;
  std::shared_ptr<UnaryLayer> parametrization;
};

/// For the library: what a Parameter has in place of its tensor, null if it has its tensor.
struct ParametrizedOf {
  static const std::shared_ptr<Parametrized>& get(const Parameter& p) { return p.parametrized_; }
  static void set(Parameter& p, std::shared_ptr<Parametrized> by) {
    static_cast<Tensor&>(p) = Tensor();
    p.parametrized_ = std::move(by);
  }
};

/// The matrix that a layer computes with where it is quantised, and nothing is added to it.
inline std::optional<Int8Matrix> int8_of(const Parameter& p) {
  const auto& by = ParametrizedOf::get(p);
  if (!by || !by->quantized() || by->parametrization) return std::nullopt;
  return by->matrix();
}

/// Whether it can be given a parametrization: it has none yet.
inline bool adaptable(const Parameter& p) { return !p.parametrized() || int8_of(p); }

}  // namespace fit::nn::detail
