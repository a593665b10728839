#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/acc_type.hpp"
#include "common/pattern.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/ops/ops.hpp"
#include "optim/grad_norm.hpp"
#include "tensor/check.hpp"

namespace fit::optim {

namespace detail {

void Formula<MuonOptions>::check_parameter(const std::string& parameter, const Tensor& p) const {
  if (!adamw_ && p.defined() && p.rank() != 2)
    check::fail(name, "the parameter ", parameter, " has shape ", p.shape(),
                ": only a matrix can be orthogonalised; put it into a group with adamw, as muon_groups() does");
  if (!adamw_ && p.defined() && p.size(0) % matrices_ != 0)
    check::fail(name, "the parameter ", parameter, " has shape ", p.shape(), ": its rows must be those of ", matrices_,
                " matrices");
}

Formula<AdamWOptions> Formula<MuonOptions>::kernel() const {
  Formula<AdamWOptions> adamw;
  adamw.lr(lr_).beta1(beta1_).beta2(beta2_).eps(adamw_eps_).weight_decay(weight_decay_).maximize(maximize_);
  return adamw;
}

namespace {

struct Coefficients {
  double a, b, c;
};

// Of step i of the iteration. Each step of Polar Express is the polynomial a x + b x^3 + c x^5 that is nearest to 1 on
// the interval to which those before bring 0.01 … 1; the fourth serves the rest.
Coefficients coefficients_of(const MuonOptions& o, std::int64_t i) {
  static constexpr Coefficients express[] = {
      {7.9899, -22.7523, 16.6825}, {3.6434, -2.7268, 0.5371}, {2.6712, -1.9853, 0.4535}, {1.9589, -1.3403, 0.3841}};
  return o.polar_express() ? express[std::min<std::int64_t>(i, 3)] : Coefficients{3.4445, -4.7750, 2.0315};
}

}  // namespace

Tensor orthogonalized(const Tensor& u, const MuonOptions& o) {
  if (o.matrices() > 1 && u.size(0) > 0) {
    std::vector<Tensor> each = split(u, u.size(0) / o.matrices());
    for (Tensor& x : each) x = orthogonalized(x, MuonOptions(o).matrices(1));
    return cat(each, 0);
  }
  const bool tall = u.size(0) > u.size(1);
  Tensor x = u * (1 / std::max(joint_norm({u}, 2), o.eps()));
  if (o.bfloat16()) x = x.to(bfloat16);
  const Tensor one = eye(std::min(u.size(0), u.size(1)), -1, x.dtype());
  for (std::int64_t i = 0; i < o.ns_steps(); ++i) {
    const auto [a, b, c] = coefficients_of(o, i);
    const Tensor square =
        tall ? matmul(x, Transpose::yes, x, Transpose::no) : matmul(x, Transpose::no, x, Transpose::yes);
    const Tensor fourth = matmul(square, Transpose::no, square, Transpose::yes);  // it is symmetric: half of the work
    const Tensor factor = one * a + square * b + fourth * c;
    x = tall ? matmul(x, factor) : matmul(factor, x);
  }
  return x.to(u.dtype());
}

Tensor at_one_speed(const Tensor& x, Tensor& v, const MuonOptions& o) {
  v = v * o.row_beta2() + mean(x * x, -1, keepdims) * (1 - o.row_beta2());
  const Tensor y = x / sqrt(maximum(v, full({}, smallest_normal(v.dtype()), v.dtype())));  // a row of zeros stays
  return y * (joint_norm({x}, 2) / std::max(joint_norm({y}, 2), o.eps()));
}

}  // namespace detail

std::vector<Group<MuonOptions>> muon_groups(const nn::Layer& net, const MuonOptions& muon, const AdamWOptions& adamw,
                                            const std::vector<std::string>& others) {
  if (adamw.amsgrad())
    check::fail("muon_groups", "adamw has amsgrad, which a group of Muon with adamw can't compute: leave it out, or ",
                "give these parameters to an AdamW of their own");
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
