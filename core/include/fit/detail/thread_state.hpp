#pragma once
#include "fit/shape.hpp"

namespace fit::detail {

struct ObserverLink;

/// What a task of parallel_for takes over from the thread that started it.
struct ThreadState {
  bool recording = true;             // whether operations are recorded, see fit/graph.hpp
  DType autocast = float32;          // what products of float32 are computed in, see fit/autocast.hpp
  ObserverLink* observed = nullptr;  // null unless the thread is observed, see fit/observer.hpp
};
// Programs that hide what they define share it with the library all the same.
[[gnu::visibility("default")]] inline thread_local ThreadState thread_state;

}  // namespace fit::detail
