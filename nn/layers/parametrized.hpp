#pragma once
#include <memory>
#include <utility>

#include "fit/nn/layer.hpp"

namespace fit::nn::detail {

/// What a parametrised Parameter has in place of its tensor: listed under its name.
class Parametrized final : public Layer {
 public:
  Parametrized(Parameter p, std::shared_ptr<UnaryLayer> by) : original(std::move(p)), parametrization(std::move(by)) {}
  FIT_FIELDS(original, parametrization)

  Parameter original;
  std::shared_ptr<UnaryLayer> parametrization;
};

}  // namespace fit::nn::detail
