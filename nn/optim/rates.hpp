#pragma once
#include <vector>

#include "fit/optim.hpp"

namespace fit::optim {

/// The learning rates of all groups, float64 [groups].
inline Tensor rates_of(const Optimizer& optimizer) {
  std::vector<double> rates;
  rates.reserve(optimizer.groups());
  for (std::size_t g = 0; g < optimizer.groups(); ++g) rates.push_back(optimizer.lr(g));
  return tensor(rates, {static_cast<std::int64_t>(rates.size())});
}

inline void set_rates(Optimizer& optimizer, const Tensor& rates) {
  std::size_t g = 0;
  for (const double lr : rates.data<double>()) optimizer.set_lr(g++, lr);
}

}  // namespace fit::optim
