#pragma once
#include <vector>

#include "fit/nn/optim/optimizer.hpp"

namespace fit::optim {

/// The learning rates of all groups.
inline std::vector<double> rates_of(const Optimizer& optimizer) {
  std::vector<double> rates;
  rates.reserve(optimizer.groups());
  for (std::size_t g = 0; g < optimizer.groups(); ++g) rates.push_back(optimizer.lr(g));
  return rates;
}

/// The same as a tensor, float64 [groups].
inline Tensor rates_tensor(const Optimizer& optimizer) {
  return tensor(rates_of(optimizer), {static_cast<std::int64_t>(optimizer.groups())});
}

/// Sets the rates of the first groups.
inline void set_rates(Optimizer& optimizer, const std::vector<double>& rates) {
  for (std::size_t g = 0; g < rates.size(); ++g) optimizer.set_lr(g, rates[g]);
}

}  // namespace fit::optim
