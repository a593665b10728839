#include "fit/nn/training/interrupt.hpp"

#include <csignal>

namespace fit {
namespace {

volatile std::sig_atomic_t noted_signal = 0;
int guards = 0;
constexpr int watched[] = {SIGINT, SIGTERM};

// nohup ignores a signal, and so does a shell for background jobs. An ignored signal stays ignored.
bool ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

struct InterruptGuard::Handlers {
  struct sigaction of[2];
};

InterruptGuard::InterruptGuard() : before_(std::make_unique<Handlers>()) {
  noted_signal = 0;
  ++guards;
  struct sigaction note {};
  note.sa_handler = [](int signal) {
    noted_signal = signal;
    for (const int each : watched)  // the second one ends the program
      if (!ignored(each)) std::signal(each, SIG_DFL);
  };
  note.sa_flags = SA_RESTART;
  sigemptyset(&note.sa_mask);
  for (int i = 0; i < 2; ++i) {
    sigaction(watched[i], nullptr, &before_->of[i]);
    if (!ignored(watched[i])) sigaction(watched[i], &note, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  --guards;
  for (int i = 0; i < 2; ++i) sigaction(watched[i], &before_->of[i], nullptr);
}

int InterruptGuard::count() { return guards; }
int InterruptGuard::signal() { return noted_signal; }

}  // namespace fit
