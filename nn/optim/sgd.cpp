#include "optim/line.hpp"

namespace fit::optim {

Kept kept_of(const SGDOptions& o) {
  constexpr const char* op = "SGD";
  check_not_negative(op, "lr", o.lr);
  check_not_negative(op, "momentum", o.momentum);
  check_not_negative(op, "weight_decay", o.weight_decay);
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
    check::fail(op, "momentum is ", o.momentum, ", dampening ", o.dampening,
                ": nesterov needs momentum and no dampening");
  return {op, {"momentum_buffer"}, o.momentum != 0};
}

void SGD::step() {
  run([](const Slot& slot, const SGDOptions& o) {
    return kernels::SgdStep{o.lr, o.momentum, 1 - o.dampening, o.weight_decay, o.nesterov, slot.fresh};
  });
}

}  // namespace fit::optim
