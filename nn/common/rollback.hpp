#pragma once
#include <exception>
#include <utility>

namespace fit {

/// Undoes what a call has begun if it is left by an exception: nothing has changed when an Error is thrown. Where the
/// call returns, it does nothing. `undo` must not throw.
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
