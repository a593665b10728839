#include "check.hpp"
#include "fit/graph.hpp"
#include "fit/optim.hpp"
#include "optim/line.hpp"

namespace fit::optim {

SGD::SGD(const std::vector<Group<SGDOptions>>& groups) : GroupedOptimizer("SGD", {"momentum_buffer"}, groups) {
  for (const auto& [parameters, o] : groups) {
    check_not_negative("SGD", "lr", o.lr);
    check_not_negative("SGD", "momentum", o.momentum);
    check_not_negative("SGD", "weight_decay", o.weight_decay);
    if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
      check::fail("SGD", "momentum is ", o.momentum, ", dampening ", o.dampening,
                  ": nesterov needs momentum and no dampening");
  }
}

void SGD::step() {
  const NoGrad plain;
  Line<kernels::SgdStep> line;
  each_with_gradient([&](Slot& slot, std::size_t group) {
    const SGDOptions& o = options(group);
    line.add(slot.parameter, slot.state, states(group),
             {o.lr, o.momentum, 1 - o.dampening, o.weight_decay, o.nesterov, slot.fresh});
  });
  line.run();
}

}  // namespace fit::optim
