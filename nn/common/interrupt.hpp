#pragma once
#include <signal.h>

namespace fit {

// Records SIGINT and SIGTERM during its lifetime. The second signal ends the program. InterruptGuard and the pages of a
// training use it.
class InterruptNote {
 public:
  InterruptNote();
  ~InterruptNote();
  InterruptNote(const InterruptNote&) = delete;
  InterruptNote& operator=(const InterruptNote&) = delete;

  static int count();   // the number of living objects
  static int signal();  // the signal that came during the lifetime of the last one, or 0

 private:
  struct sigaction before_[2];
};

}  // namespace fit
