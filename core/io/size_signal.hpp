#pragma once
#include <csignal>
#include <ctime>

namespace fit::io {

/// While one lives, a write past the limit of file sizes (RLIMIT_FSIZE) fails in this thread with EFBIG, as other
/// writes fail, and does not end the program by SIGXFSZ.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigset_t pending;
    sigpending(&pending);
    waiting_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal(), &before_);
  }
  ~NoSizeSignal() {
    if (!waiting_) {  // the one that a write has raised meanwhile; it is raised in the thread that writes
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
