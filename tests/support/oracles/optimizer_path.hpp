#pragma once
#include <algorithm>
#include <string>

#include "fit/io/npz.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/tensors.hpp"

// Optimisers against the places of PyTorch's in tests/golden/training.npz.
namespace fit::test {

inline Tensor training_golden(const std::string& name) {
  static const StateDict all = load_npz(FIT_GOLDEN_DIR "/training.npz");
  return at(all, name);
}

/// The largest distance from PyTorch's places, of a parameter of this type that begins at FORM/start and gets
/// FORM/gradients.
template <class Optimizer, class Options>
double distance_from_path(const std::string& form, const std::string& path, const Options& options, DType dtype) {
  const Tensor places = training_golden(form + '/' + path);
  const Tensor gradients = training_golden(form + "/gradients").to(dtype);
  Tensor p = training_golden(form + "/start").to(dtype).clone().requires_grad_();
  Optimizer optimizer({p}, options);
  double worst = 0;
  for (std::int64_t t = 0; t < places.size(0); ++t) {
    p.set_grad(gradients[t].clone());
    optimizer.step();
    worst = std::max(worst, max_difference(p.detach().to(float64), places[t]));
  }
  return worst;
}

}  // namespace fit::test
