#pragma once

namespace fit::detail {

/// What a task of parallel_for takes over from the thread that started it.
struct ThreadState {
  bool recording = true;  // whether operations are recorded, see fit/graph.hpp
};
extern thread_local ThreadState thread_state;

}  // namespace fit::detail
