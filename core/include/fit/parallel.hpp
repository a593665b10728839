#pragma once
#include <cstdint>
#include <type_traits>

/// The one way to use several cores. OpenBLAS is kept at one thread a call; nothing else opens a parallel region.
namespace fit {

/// How many threads parallel_for may use: at first the cores that this process may run on (its affinity and its
/// container's limit count), or OMP_NUM_THREADS where that is set. Results don't depend on it.
int num_threads();
void set_num_threads(int n);

/// How parallel_for() shares its range out, in OpenMP's words: static_schedule gives each thread one piece,
/// dynamic_schedule gives pieces of one grain, in order, to whichever thread is free: for work of uneven cost.
enum class ParallelSchedule : bool { static_schedule, dynamic_schedule };
inline constexpr ParallelSchedule dynamic_schedule = ParallelSchedule::dynamic_schedule;

namespace detail {
using RangeBody = void (*)(const void* body, std::int64_t begin, std::int64_t end);
void run_parallel(std::int64_t n, std::int64_t grain, ParallelSchedule schedule, const void* body, RangeBody call);
}  // namespace detail

/// Calls body(begin, end) on pieces that together are 0 … n. Pieces begin at multiples of `grain`, the least that is
/// worth a thread (some ten microseconds of work); up to one grain, inside another parallel_for, or while the threads
/// serve another caller, it is one call on this thread. The state of recording is carried over; the first exception is
/// thrown again here, after all have ended. A thread that can't be started is done without: nothing fails for want of
/// one.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, ParallelSchedule schedule, const Body& body) {
  if (n <= grain) {
    if (n > 0) body(std::int64_t{0}, n);
    return;
  }
  detail::run_parallel(n, grain, schedule, &body, [](const void* f, std::int64_t begin, std::int64_t end) {
    (*static_cast<const Body*>(f))(begin, end);
  });
}
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, const Body& body) {
  parallel_for(n, grain, ParallelSchedule::static_schedule, body);
}

}  // namespace fit
