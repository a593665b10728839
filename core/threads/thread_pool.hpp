#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fit/detail/function_ref.hpp"

namespace fit::detail {

constexpr std::size_t cache_line = 64;

/// Who does a thread's part of a round: the thread, or the caller, if it has done its own part before the thread begins
/// (the thread sleeps, or another program has its core).
class alignas(cache_line) Part {
 public:
  /// True for the first that asks in this round. Rounds have growing numbers. A thread that comes late asks for an
  /// earlier round, and gets nothing.
  bool claim(std::uint64_t round) {
    std::uint64_t last = last_.load(std::memory_order_relaxed);
    while (last < round)
      if (last_.compare_exchange_weak(last, round)) return true;
    return false;
  }

 private:
  std::atomic<std::uint64_t> last_{0};
};

/// The number of cores on which the system lets this process run.
int cores();

/// Calls task(t, n) concurrently on threads t = 0 … n - 1 and returns when all have finished. Thread 0 is the caller.
/// n is `count`, or less if threads are missing; n is 1 while the pool serves another caller. The task must not throw.
void run_on_threads(int count, FunctionRef<void(int t, int n)> task);

}  // namespace fit::detail
