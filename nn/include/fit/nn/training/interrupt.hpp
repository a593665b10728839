#pragma once
#include <memory>

namespace fit {

/// Catches Ctrl-C and SIGTERM during its lifetime. The first signal sets interrupted(), so the loop can save and end.
/// The second ends the program. Your code may have one guard at a time; a TrainingPage has its own if there is none.
class InterruptGuard {
 public:
  [[nodiscard]] InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  /// Whether a signal came.
  static bool interrupted() { return signal() != 0; }
  /// The signal that came during the lifetime of the last guard, or 0.
  static int signal();
  /// The number of living guards, with those of pages.
  static int count();

 private:
  struct Handlers;
  std::unique_ptr<Handlers> before_;
};

}  // namespace fit
