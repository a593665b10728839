#pragma once
#include <exception>
#include <utility>

namespace fit {

/// Calls `undo` if an exception leaves the scope, so that a call that throws changes nothing. It does nothing on a
/// normal return. `undo` must not throw.
template <class F>
class Rollback {
 public:
  explicit Rollback(F undo) : undo_(std::move(undo)) {}
  ~Rollback() {
    if (std::uncaught_exceptions() > before_) undo_();
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;

 private:
  const int before_ = std::uncaught_exceptions();
  F undo_;
};

}  // namespace fit
