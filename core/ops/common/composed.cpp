#include "ops/common/composed.hpp"

#include <utility>

namespace fit {
namespace {

// A copy of x with its own node. Derivatives by it stop there, even while another derivative is being computed.
Tensor identity_leaf(const Tensor& x) {
  return record("identity", {x}, x.alias(x.shape()), keep::nothing, [](Backward& b) { b.give(0, b.take_dy()); });
}

}  // namespace

void give_by_decomposition(Backward& b, const Decomposition& form) {
  const bool again = b.recording();
  std::vector<int> wanted;
  std::vector<Tensor> x, inputs, outputs, seeds, gradients;
  {
    const EnableGrad on;
    for (int i = 0; i < b.inputs(); ++i) {
      x.push_back(b.x(i));
      if (!again && x.back().defined()) x.back() = x.back().detach();
      if (!b.wants(i)) continue;
      if (again)
        x.back() = identity_leaf(x.back());
      else
        x.back().requires_grad_();
      wanted.push_back(i);
      inputs.push_back(x.back());
    }
    const std::vector<Tensor> y = form(x);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const int output = static_cast<int>(i);
      if (!y[i].defined() || !y[i].requires_grad() || !b.has_dy(output)) continue;
      outputs.push_back(y[i]);
      seeds.push_back(b.dy(output));
    }
    if (outputs.empty())
      gradients.resize(inputs.size());
    else
      gradients = grad(outputs, inputs, seeds, again ? allow_unused | create_graph : allow_unused);
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) b.give(wanted[i], std::move(gradients[i]));
}

}  // namespace fit
