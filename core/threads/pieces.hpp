#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "fit/threads/parallel.hpp"

// How parallel_for() cuts its range. It depends on numbers alone.
namespace fit::detail {

/// The pieces of 0 … n for `threads` threads, at most one for each grain.
struct Pieces {
  struct Range {
    std::int64_t begin, end;
  };

  std::int64_t n, grain;
  ParallelSchedule schedule;
  std::int64_t threads;

  std::int64_t grains() const { return (n + grain - 1) / grain; }
  /// How many there are; some of guided_schedule may be empty.
  std::int64_t size() const {
    return schedule == ParallelSchedule::static_schedule    ? threads
           : schedule == ParallelSchedule::dynamic_schedule ? grains()
                                                            : 4 * threads;
  }
  /// Piece i, in the order in which free threads take them. Thread t begins with piece t. Neighbouring pieces often
  /// read the same memory. So the range is cut into a run for each thread, and pieces `threads` apart are neighbours in
  /// one.
  Range operator[](std::int64_t i) const {
    const std::int64_t run = i % threads, step = i / threads;
    switch (schedule) {
      case ParallelSchedule::static_schedule:  // full grains
        return whole(grains() * i / threads, grains() * (i + 1) / threads);
      case ParallelSchedule::dynamic_schedule: {
        const std::int64_t first = grains() / threads * run + std::min(run, grains() % threads) + step;
        return whole(first, first + 1);
      }
      case ParallelSchedule::guided_schedule:
        break;
    }
    // 7, 5, 3 and 1 sixteenths of a run
    const std::int64_t first = n * run / threads, size = n * (run + 1) / threads - first;
    const auto at = [&](std::int64_t left) { return first + size - size * left * left / 16; };
    return {at(4 - step), at(3 - step)};
  }

 private:
  Range whole(std::int64_t first, std::int64_t end) const { return {first * grain, std::min(n, end * grain)}; }
};

/// For tests: if it is not null, each parallel region of this thread adds its pieces, before it begins.
inline thread_local std::vector<Pieces>* regions = nullptr;

}  // namespace fit::detail
