#include "fit/batch_invariant.hpp"

namespace fit {
namespace {
thread_local bool mode = false;
}  // namespace

bool batch_invariant() { return mode; }

detail::BatchInvariantGuard::BatchInvariantGuard(bool on) : before_(mode) { mode = on; }
detail::BatchInvariantGuard::~BatchInvariantGuard() { mode = before_; }

}  // namespace fit
