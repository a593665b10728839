#include <csignal>

#include "fit/trainer.hpp"

namespace fit {
namespace {

volatile std::sig_atomic_t interrupt_noted = 0;
constexpr int watched[] = {SIGINT, SIGTERM};

// nohup ignores a signal, and so does a shell for background jobs. An ignored signal stays ignored.
bool ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

struct InterruptGuard::Handlers {
  struct sigaction before[2];
};

InterruptGuard::InterruptGuard() : handlers_(std::make_unique<Handlers>()) {
  interrupt_noted = 0;
  struct sigaction note {};
  note.sa_handler = [](int) {
    interrupt_noted = 1;
    for (const int signal : watched)  // the second one ends the program
      if (!ignored(signal)) std::signal(signal, SIG_DFL);
  };
  note.sa_flags = SA_RESTART;
  sigemptyset(&note.sa_mask);
  for (int i = 0; i < 2; ++i) {
    sigaction(watched[i], nullptr, &handlers_->before[i]);
    if (!ignored(watched[i])) sigaction(watched[i], &note, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (int i = 0; i < 2; ++i) sigaction(watched[i], &handlers_->before[i], nullptr);
}

bool InterruptGuard::interrupted() { return interrupt_noted != 0; }

}  // namespace fit
