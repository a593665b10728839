#include "fit/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>

#include "fit/detail/scoped.hpp"
#include "fit/detail/thread_state.hpp"
#include "fit/error.hpp"
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
  run_on_threads(max_threads, [=, &mutex, &first, &next](int t, int count) {
    const Scoped own(thread_state, state);
    try {
      if (schedule == dynamic_schedule) {
        // Neighbouring grains often read the same memory. So if the threads take turns, each gets a run of them.
        for (std::int64_t turn = t; turn < grains; turn = count + next.fetch_add(1, std::memory_order_relaxed)) {
          const std::int64_t run = turn % count;
          const std::int64_t g = grains / count * run + std::min(run, grains % count) + turn / count;
          call(body, g * grain, std::min(n, (g + 1) * grain));
        }
      } else {
        // Each thread gets full grains: thread t takes those from t * grains / count to (t + 1) * grains / count.
        const std::int64_t begin = grains * t / count * grain, end = std::min(n, grains * (t + 1) / count * grain);
        if (begin < end) call(body, begin, end);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!first) first = std::current_exception();
    }
  });
  if (first) std::rethrow_exception(first);
}

}  // namespace fit
