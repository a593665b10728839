#include "fit/nn/optim/step_in_backward.hpp"

#include <mutex>
#include <unordered_set>

#include "fit/nn/dist/dist.hpp"
#include "optim/named.hpp"
#include "tensor/check.hpp"

namespace fit::optim {
namespace {

constexpr const char* step_in_backward_op = "StepInBackward";

// The parameters that take their step within backward().
struct Stepped {
  std::mutex mutex;
  std::unordered_set<const void*> tensors;
};
Stepped& stepped() {
  static Stepped* const all = new Stepped;  // never destroyed: an object may be static
  return *all;
}

}  // namespace

bool steps_in_backward(const Tensor& parameter) {
  const std::lock_guard<std::mutex> lock(stepped().mutex);
  return stepped().tensors.count(parameter.impl()) > 0;
}

void expect_gradient_kept(const char* op, const std::string& name, const Tensor& parameter, const char* cure) {
  if (steps_in_backward(parameter))
    check::fail(op, "a StepInBackward updates the parameter ", name,
                " within backward(), before the other gradients are known, and frees its gradient: there is nothing "
                "left to ",
                cure);
}

StepInBackward::StepInBackward(Optimizer& optimizer) {
  if (optimizer.sharded() || dist::world().size() > 1)
    check::fail(step_in_backward_op, "there are ", dist::world().size(),
                " ranks: their gradients are summed after backward(), when these would be freed already");
  const std::vector<Tensor> parameters = optimizer.trained();
  for (const Tensor& p : parameters)
    if (steps_in_backward(p))
      check::fail(step_in_backward_op, "a parameter of shape ", p.shape(), " takes its step in backward() already");
  optimizer.create_states();
  for (const Tensor& p : parameters)
    hooks_.push_back(register_post_accumulate_grad_hook(p, [&optimizer](const Tensor& leaf) {
      optimizer.step(leaf);
      Tensor(leaf).zero_grad();
    }));
  const std::lock_guard<std::mutex> lock(stepped().mutex);
  for (const Tensor& p : parameters) {
    parameters_.push_back(p.impl());
    stepped().tensors.insert(p.impl());
  }
}

StepInBackward::~StepInBackward() {
  const std::lock_guard<std::mutex> lock(stepped().mutex);
  for (const void* p : parameters_) stepped().tensors.erase(p);
}

}  // namespace fit::optim
