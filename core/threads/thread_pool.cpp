// The threads behind parallel_for. Why not OpenMP's: those spin for milliseconds when they wait, so that two programs
// on one machine slow each other down tenfold; they are gone after a fork(), which then hangs; and the thread sanitizer
// can't see how they wait.
#include "threads/thread_pool.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

namespace fit::detail {
namespace {

// Some 30 us: about what it costs to fall asleep and to be woken.
constexpr int spins = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Where threads wait for a change to atomics: at first awake, then asleep.
class Gate {
 public:
  template <class Ready>
  void wait(bool awake, const Ready& ready) {
    for (int i = 0; awake && i < spins; ++i) {
      if (ready()) return;
      pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    ++asleep_;  // before ready() looks, as the change comes before open() looks: one of the two sees the other
    changed_.wait(lock, ready);
    --asleep_;
  }
  void open() {
    if (asleep_ == 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> asleep_{0};
};

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

class Pool {
 public:
  void run(int size, const void* member, void (*call)(const void*, int, int)) {
    const std::unique_lock<std::mutex> mine(busy_, std::try_to_lock);
    if (!mine) return call(member, 0, 1);
    const int team = hire(std::min(size, most));
    member_ = member;
    call_ = call;
    pending_ = team - 1;
    round_ = (round_ / (most + 1) + 1) * (most + 1) + static_cast<std::uint64_t>(team);
    start_.open();
    call(member, 0, team);
    end_.wait(team <= cores_, [this] { return pending_ == 0; });
  }

 private:
  // Makes the threads that a team of `size` lacks, as many as there can be. Gives back its size.
  int hire(int size) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's own threads
    try {
      for (; hired_ + 1 < size; ++hired_)
        std::thread([this, t = hired_ + 1, seen = round_.load()] { work(t, seen); }).detach();
    } catch (const std::system_error&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return std::min(size, hired_ + 1);
  }

  void work(int t, std::uint64_t seen) {
    for (;;) {
      start_.wait(t < cores_, [&] { return round_ != seen; });
      seen = round_;
      const int team = static_cast<int>(seen % (most + 1));
      if (t >= team) continue;
      call_(member_, t, team);
      if (--pending_ == 0) end_.open();
    }
  }

  static constexpr int most = (1 << 16) - 1;
  const int cores_ = cores();
  std::mutex busy_;
  int hired_ = 0;
  const void* member_ = nullptr;
  void (*call_)(const void*, int, int) = nullptr;
  std::atomic<int> pending_{0};
  std::atomic<std::uint64_t> round_{0};  // its number, and the size of its team: both are read at once
  Gate start_, end_;
};

std::atomic<Pool*> pool{nullptr};  // never destroyed: its threads wait until the program ends

Pool& the_pool() {
  if (Pool* p = pool) return *p;
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { pool = nullptr; }); });  // a child has no threads
  Pool* none = nullptr;
  Pool* const made = new Pool;
  if (pool.compare_exchange_strong(none, made)) return *made;
  delete made;
  return *none;
}

}  // namespace

void run_team(int size, const void* member, void (*call)(const void*, int, int)) { the_pool().run(size, member, call); }

}  // namespace fit::detail
