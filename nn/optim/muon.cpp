#include "fit/muon.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "common/pattern.hpp"
#include "fit/autocast.hpp"
#include "fit/graph.hpp"
#include "fit/nn/layer.hpp"
#include "fit/nn/linear.hpp"
#include "fit/ops.hpp"
#include "optim/fused_step.hpp"
#include "optim/grad_norm.hpp"
#include "optim/named.hpp"

namespace fit::optim {

void check_matrix(const std::string& name, const Tensor& p) {
  if (p.defined() && p.rank() != 2)
    check::fail("Muon", "the parameter ", name, " has shape ", p.shape(),
                ": only a matrix can be orthogonalised; put it into a group with adamw, as muon_groups() does");
}

namespace {

// A matrix with the singular vectors of u, and singular values near 1.
Tensor orthogonalized(const Tensor& u, const MuonOptions& o) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool tall = u.size(0) > u.size(1);
  Tensor x = u * (1 / std::max(joint_norm({u}, 2), o.eps()));
  if (o.bfloat16()) x = x.to(bfloat16);
  const Tensor one = eye(std::min(u.size(0), u.size(1)), -1, x.dtype());
  for (std::int64_t i = 0; i < o.ns_steps(); ++i) {
    const Tensor square =
        tall ? matmul(x, Transpose::yes, x, Transpose::no) : matmul(x, Transpose::no, x, Transpose::yes);
    const Tensor factor = one * a + square * b + matmul(square, square) * c;
    x = tall ? matmul(x, factor) : matmul(factor, x);
  }
  return x.to(u.dtype());
}

AdamWOptions adamw_of(const MuonOptions& o) {
  return AdamWOptions().lr(o.lr()).beta1(o.beta1()).beta2(o.beta2()).eps(o.adamw_eps()).weight_decay(o.weight_decay());
}

}  // namespace

template <>
void GroupedOptimizer<MuonOptions>::step() {
  const NoGrad no_grad;
  const Autocast off(float32);
  FusedStep<kernels::AdamStep> adamw;
  adamw.reserve(parameter_count());
  std::vector<Slot*> others;
  others.reserve(parameter_count());
  each_change([&](Slot& slot, std::vector<Change>& changes) {
    const MuonOptions& o = options(slot.group);
    if (o.adamw()) return others.push_back(&slot);
    Tensor& p = slot.parameter;
    check_matrix(slot.name, p);
    if (p.numel() == 0) return;
    const double sign = o.maximize() ? -1 : 1;
    const Tensor share = p.grad() * (sign * (1 - o.momentum()));
    const Tensor m = slot.state[0] * o.momentum() + share;
    const Tensor update = orthogonalized(o.nesterov() ? m * o.momentum() + share : m, o);
    const auto rows = static_cast<double>(p.size(0)), columns = static_cast<double>(p.size(1));
    const double factor =
        o.match_rms_adamw() ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1., rows / columns));
    changes.push_back({slot.state[0], m});
    changes.push_back({p, p * (1 - o.lr() * o.weight_decay()) - update * (o.lr() * factor)});
  });
  for (Slot* slot : others) {
    const kernels::StepCount count{slot->steps, slot->is_new, &slot->scalar};
    const MuonOptions& o = options(slot->group);
    adamw.add(slot->parameter, slot->parameter.grad(), slot->state + 1, kernels::AdamStep(adamw_of(o), true, count), 0,
              slot->parameter.numel(), o.maximize() ? -1 : 1);
  }
  adamw.run();
}

std::vector<Group<MuonOptions>> muon_groups(const nn::Layer& net, const MuonOptions& muon, const AdamWOptions& adamw,
                                            const std::vector<std::string>& others) {
  std::unordered_set<const void*> matrices;
  for (const auto& [path, linear] : net.named_layers<nn::Linear>())
    for (const auto& [name, p] : linear->named_parameters())
      if (p.rank() == 2) matrices.insert(p.impl());
  for (const auto& [path, table] : net.named_layers<nn::Embedding>())
    for (const Tensor& p : table->parameters()) matrices.erase(p.impl());
  const auto apart = [&](const std::string& name) {
    return std::any_of(others.begin(), others.end(), [&](const auto& pattern) { return nn::match(pattern, name); });
  };
  nn::StateDict hidden, rest;
  for (const auto& [name, p] : net.named_parameters())
    (matrices.count(p.impl()) > 0 && !apart(name) ? hidden : rest).emplace_back(name, p);
  const auto of_rest = MuonOptions()
                           .adamw(true)
                           .lr(adamw.lr())
                           .weight_decay(adamw.weight_decay())
                           .beta1(adamw.beta1())
                           .beta2(adamw.beta2())
                           .adamw_eps(adamw.eps())
                           .maximize(adamw.maximize());
  std::vector<Group<MuonOptions>> groups;
  if (!hidden.empty()) groups.push_back({hidden, MuonOptions(muon).adamw(false)});
  if (!rest.empty()) groups.push_back({rest, of_rest});
  return groups;
}

}  // namespace fit::optim
