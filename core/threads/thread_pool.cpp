// The threads behind parallel_for. OpenMP is not used for three reasons. Its threads spin for milliseconds when they
// wait, so two programs on one machine slow each other down tenfold. They do not survive fork(): the child hangs. The
// thread sanitizer does not see how they synchronise.
#include "threads/thread_pool.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace fit::detail {
namespace {

// A waiting thread pauses for about 5 us. Then it offers its core to other threads for about 100 us; if there are none,
// it loses nothing. Only then does it sleep: falling asleep and being woken takes 30 us.
constexpr int pauses = 500, offers = 200, pauses_between_offers = 40;
constexpr int patience = 100;  // about 1 us: then the caller does the parts that others have not begun

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // as long as x86's pause; `yield` does nothing on most arm processors
#endif
}

// An event. A waiting thread first spins (if `spin`), then sleeps, until a change of the atomics is signalled.
class Event {
 public:
  template <class Ready>
  void wait(bool spin, const Ready& ready) {
    if (spin && spun(ready)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    ++asleep_;  // before ready() reads; signal() reads asleep_ after the change: one of the two notices the other
    changed_.wait(lock, ready);
    --asleep_;
  }
  void signal() {
    if (asleep_ == 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  }

 private:
  // Returns whether ready() became true.
  template <class Ready>
  static bool spun(const Ready& ready) {
    for (int i = 0; i < pauses + offers * pauses_between_offers; ++i) {
      if (ready()) return true;
      if (i >= pauses && i % pauses_between_offers == 0) sched_yield();
      pause();
    }
    return false;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> asleep_{0};
};

// Blocks all signals on this thread and the threads that it starts: signals belong to the program's own threads.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

using Task = FunctionRef<void(int, int)>;

class ThreadPool {
 public:
  void run(int count, const Task& task) {
    if (busy_.exchange(true, std::memory_order_acquire)) return task(0, 1);
    count = ensure_threads(std::min(count, max_threads));
    task_ = task;
    pending_.store(count - 1, std::memory_order_relaxed);
    const std::uint64_t round = (round_.load(std::memory_order_relaxed) / (max_threads + 1) + 1) * (max_threads + 1) +
                                static_cast<std::uint64_t>(count);
    round_ = round;
    start_.signal();
    task(0, count);
    // Mostly the others end soon. To look at their parts would slow down their next round.
    for (int i = 0; i < patience && pending_ != 0; ++i) pause();
    for (int t = 1; t < count && pending_ != 0; ++t)
      if (parts_[static_cast<std::size_t>(t - 1)]->claim(round)) task(t, count), --pending_;
    end_.wait(count <= cores_, [this] { return pending_ == 0; });
    busy_.store(false, std::memory_order_release);
  }

 private:
  // Starts threads until there are `count` with the caller, or as many as the system allows. Returns their number.
  int ensure_threads(int count) {
    if (threads() < count) {
      const BlockSignals no_signals;
      try {
        while (threads() < count) {
          auto part = std::make_unique<Part>();
          parts_.reserve(parts_.size() + 1);
          std::thread([this, t = threads(), seen = round_.load(), p = part.get()] { work(t, seen, *p); }).detach();
          parts_.push_back(std::move(part));
        }
      } catch (const std::exception&) {  // no thread or no memory left: the existing threads do the work
      }
    }
    return std::min(count, threads());
  }
  // With the caller.
  int threads() const { return static_cast<int>(parts_.size()) + 1; }

  void work(int t, std::uint64_t seen, Part& part) {
    for (;;) {
      start_.wait(t < cores_, [&] { return round_ != seen; });
      seen = round_;
      const int count = static_cast<int>(seen % (max_threads + 1));
      if (t >= count || !part.claim(seen)) continue;
      (*task_)(t, count);
      if (--pending_ == 0) end_.signal();
    }
  }

  static constexpr int max_threads = (1 << 16) - 1;
  const int cores_ = cores();
  std::atomic<bool> busy_{false};
  std::vector<std::unique_ptr<Part>> parts_;  // of the threads without the caller
  // Members that change together share a cache line, and others do not. Moving a line between cores takes 0.15 us.
  alignas(cache_line) std::atomic<std::uint64_t> round_{0};  // number and thread count in one word: read together
  std::optional<Task> task_;
  alignas(cache_line) std::atomic<int> pending_{0};
  alignas(cache_line) Event start_;
  alignas(cache_line) Event end_;
};

std::atomic<ThreadPool*> pool{nullptr};  // never destroyed: its threads wait until the program exits

// Returns null if memory is exhausted.
ThreadPool* the_pool() {
  if (ThreadPool* p = pool) return p;
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { pool = nullptr; }); });  // a child has no threads
  ThreadPool* none = nullptr;
  ThreadPool* const made = new (std::nothrow) ThreadPool;
  if (pool.compare_exchange_strong(none, made)) return made;  // LCOV_EXCL_BR_LINE: unless two threads come at once
  delete made;                                                // LCOV_EXCL_LINE
  return none;                                                // LCOV_EXCL_LINE
}

}  // namespace

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;  // LCOV_EXCL_BR_LINE: it does not fail
}

void run_on_threads(int count, Task task) {
  ThreadPool* const p = the_pool();
  p ? p->run(count, task) : task(0, 1);
}

}  // namespace fit::detail
