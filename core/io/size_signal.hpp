#pragma once
#include <csignal>
#include <ctime>

namespace fit::io {

/// Blocks SIGXFSZ on this thread while it lives: a write past RLIMIT_FSIZE fails with EFBIG instead of ending the
/// program.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigset_t pending;
    sigpending(&pending);
    waiting_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal(), &before_);
  }
  ~NoSizeSignal() {
    if (!waiting_) {  // consume the signal that a write on this thread has raised
      const timespec now = {};
      while (sigtimedwait(&signal(), nullptr, &now) > 0) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  static const sigset_t& signal() {
    static const sigset_t one = [] {
      sigset_t s;
      sigemptyset(&s);
      sigaddset(&s, SIGXFSZ);
      return s;
    }();
    return one;
  }
  sigset_t before_;
  bool waiting_;
};

}  // namespace fit::io
