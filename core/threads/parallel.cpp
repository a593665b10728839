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
#include "threads/pieces.hpp"
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
  Pieces all{n, std::max<std::int64_t>(grain, 1), schedule, 1};
  all.threads = std::min<std::int64_t>(all.grains(), thread_state.inside_parallel ? 1 : num_threads());
  if (all.threads <= 1) return call(body, 0, n);
  if (regions) regions->push_back(all);
  std::mutex mutex;
  std::exception_ptr first;
  std::atomic<std::int64_t> next{0};
  ThreadState state = thread_state;
  state.inside_parallel = true;
  // Copies, not references: other cores then read one piece of the caller's memory.
  run_on_threads(static_cast<int>(all.threads), [=, &mutex, &first, &next](int t, std::int64_t count) {
    const Scoped own(thread_state, state);
    try {
      Pieces pieces = all;
      pieces.threads = count;
      const auto take = [&](std::int64_t i) {
        if (const auto [begin, end] = pieces[i]; begin < end) call(body, begin, end);
      };
      if (schedule == ParallelSchedule::static_schedule) return take(t);
      for (std::int64_t i = t; i < pieces.size(); i = count + next.fetch_add(1, std::memory_order_relaxed)) take(i);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!first) first = std::current_exception();
    }
  });
  if (first) std::rethrow_exception(first);
}

}  // namespace fit
