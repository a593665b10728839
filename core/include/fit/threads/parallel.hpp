#pragma once
#include <cstdint>

/// parallel_for() is the only way in which fit uses several cores. OpenBLAS uses one thread for each call.
namespace fit {

/// The number of threads that parallel_for may use. Initially the cores available to this process (affinity and the
/// container's limit), or OMP_NUM_THREADS if it is set. Results don't depend on it.
int num_threads();
void set_num_threads(int n);

/// How parallel_for() distributes its range, in OpenMP's terms. static_schedule gives each thread one piece.
/// dynamic_schedule gives the next piece of one grain to any free thread, for work of uneven cost. guided_schedule does
/// the same with few pieces, each smaller than the one before: threads of uneven speed end together. Its pieces begin
/// anywhere.
enum class ParallelSchedule : std::uint8_t { static_schedule, dynamic_schedule, guided_schedule };
inline constexpr ParallelSchedule dynamic_schedule = ParallelSchedule::dynamic_schedule;
inline constexpr ParallelSchedule guided_schedule = ParallelSchedule::guided_schedule;

namespace detail {
using RangeBody = void (*)(const void* body, std::int64_t begin, std::int64_t end);
void run_parallel(std::int64_t n, std::int64_t grain, ParallelSchedule schedule, const void* body, RangeBody call);
}  // namespace detail

/// Calls body(begin, end) for pieces that together cover 0 … n. Pieces begin at multiples of `grain`: the minimum that
/// is worth a thread (about ten microseconds of work). It is one call on this thread if n <= grain, inside another
/// parallel_for, or while the threads serve another caller. The tasks copy the state of recording. The first exception
/// is rethrown here, after all tasks have ended. If a thread can't be started, the others do its work.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, ParallelSchedule schedule, const Body& body) {
  // Not inlined below, so that the program has one copy of the body.
  constexpr auto call = [](const void* f, std::int64_t begin, std::int64_t end) __attribute__((noinline)) {
    (*static_cast<const Body*>(f))(begin, end);
  };
  if (n > grain)
    detail::run_parallel(n, grain, schedule, &body, call);
  else if (n > 0)
    call(&body, 0, n);
}
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, const Body& body) {
  parallel_for(n, grain, ParallelSchedule::static_schedule, body);
}

}  // namespace fit
