#include "fit/threads/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>

#include "fit/base/error.hpp"
#include "fit/detail/scoped.hpp"
#include "fit/detail/thread_state.hpp"
#include "threads/thread_pool.hpp"

namespace fit {

namespace {

// LCOV_EXCL_START: a machine has one kind of control groups, mostly without a quota.
// The CPU quota of the container in cores (cgroups version 2, then 1); 0 if there is no limit.
int cores_of_quota() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period) {
    if (quota == "max" || period <= 0) return 0;
    return static_cast<int>(std::ceil(std::strtod(quota.c_str(), nullptr) / period));
  }
  std::ifstream q("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), p("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double limit = 0;
  if (q >> limit && p >> period && limit > 0 && period > 0) return static_cast<int>(std::ceil(limit / period));
  return 0;
}
// LCOV_EXCL_STOP

int initial_threads() {
  if (const char* asked = std::getenv("OMP_NUM_THREADS"))
    if (const long n = std::strtol(asked, nullptr, 10); n > 0) return static_cast<int>(std::min(n, long{INT_MAX}));
  int n = detail::cores();
  if (const int quota = cores_of_quota(); quota > 0) n = std::min(n, quota);  // LCOV_EXCL_BR_LINE: see there
  return std::max(n, 1);
}

std::atomic<int>& threads() {
  static std::atomic<int> n{initial_threads()};
  return n;
}

}  // namespace

int num_threads() { return threads().load(std::memory_order_relaxed); }

void set_num_threads(int n) {
  if (n < 1) throw Error("[set_num_threads] n is " + std::to_string(n) + ": it must be at least 1");
  threads().store(n, std::memory_order_relaxed);
}

void detail::run_parallel(std::int64_t n, std::int64_t grain, ParallelSchedule schedule, const void* body,
                          RangeBody call) {
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t grains = (n + grain - 1) / grain;
  const int max_threads =
      static_cast<int>(std::min<std::int64_t>(grains, thread_state.inside_parallel ? 1 : num_threads()));
  if (max_threads <= 1) return call(body, 0, n);
  std::mutex mutex;
  std::exception_ptr first;
  std::atomic<std::int64_t> next{0};
  ThreadState state = thread_state;
  state.inside_parallel = true;
  // Copies, not references: other cores then read one piece of the caller's memory.
  run_on_threads(max_threads, [=, &mutex, &first, &next](int t, std::int64_t count) {
    const Scoped own(thread_state, state);
    try {
      const auto piece = [&](std::int64_t begin, std::int64_t end) {
        if (begin < end) call(body, begin, std::min(n, end));
      };
      // Calls take(run, step) for the steps of `count` runs, one at a time. Neighbouring pieces often read the same
      // memory: if the threads take turns, each thread gets a run of them.
      const auto turns = [&](std::int64_t all, const auto& take) {
        for (std::int64_t turn = t; turn < all; turn = count + next.fetch_add(1, std::memory_order_relaxed))
          take(turn % count, turn / count);
      };
      switch (schedule) {
        case ParallelSchedule::static_schedule:  // full grains
          return piece(grains * t / count * grain, grains * (t + 1) / count * grain);
        case ParallelSchedule::dynamic_schedule:
          return turns(grains, [&](std::int64_t run, std::int64_t step) {
            const std::int64_t g = grains / count * run + std::min(run, grains % count) + step;
            piece(g * grain, (g + 1) * grain);
          });
        case ParallelSchedule::guided_schedule:  // 7, 5, 3 and 1 sixteenths of a run
          return turns(4 * count, [&](std::int64_t run, std::int64_t step) {
            const std::int64_t first = n * run / count, size = n * (run + 1) / count - first;
            const auto at = [&](std::int64_t left) { return first + size - size * left * left / 16; };
            piece(at(4 - step), at(3 - step));
          });
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!first) first = std::current_exception();
    }
  });
  if (first) std::rethrow_exception(first);
}

}  // namespace fit
