#pragma once
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/nn/optim/optim.hpp"

// What tests of every optimiser of optim::AllOptimizers need.
namespace fit::test {

template <class Optimizer>
using OptionsOf = std::decay_t<decltype(std::declval<Optimizer&>().options())>;

/// Whether a step needs whole tensors, which can't be sharded.
template <class Optimizer>
constexpr bool on_tensors = optim::detail::Formula<OptionsOf<Optimizer>>::on_tensors;

/// Parameters in the groups that an optimiser takes: one; for Muon that of the matrices, and one with adamw.
template <class Optimizer>
std::vector<optim::Group<OptionsOf<Optimizer>>> groups_of(const StateDict& named, double lr) {
  const auto options = OptionsOf<Optimizer>().lr(lr);
  if constexpr (std::is_same_v<Optimizer, optim::Muon>) {
    StateDict matrices, others;
    for (const auto& [name, p] : named) (p.rank() == 2 ? matrices : others).emplace_back(name, p);
    std::vector<optim::Group<optim::MuonOptions>> groups{{matrices, options}};
    if (!others.empty()) groups.push_back({others, optim::MuonOptions(options).adamw(true)});
    return groups;
  } else {
    return {{named, options}};
  }
}

/// Calls f with a null pointer to each type of optim::AllOptimizers.
template <class F, class... Optimizers>
void each_optimizer(const F& f, std::tuple<Optimizers...>*) {
  (f(static_cast<Optimizers*>(nullptr)), ...);
}
template <class F>
void each_optimizer(const F& f) {
  each_optimizer(f, static_cast<optim::AllOptimizers*>(nullptr));
}

}  // namespace fit::test
