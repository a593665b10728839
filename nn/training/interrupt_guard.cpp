#include "common/interrupt.hpp"
#include "fit/trainer.hpp"

namespace fit {

struct InterruptGuard::Handlers {
  InterruptNote note;
};

InterruptGuard::InterruptGuard() : handlers_(std::make_unique<Handlers>()) {}
InterruptGuard::~InterruptGuard() = default;

bool InterruptGuard::interrupted() { return InterruptNote::signal() != 0; }

}  // namespace fit
