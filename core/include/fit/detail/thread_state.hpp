#pragma once
#include "fit/base/shape.hpp"

namespace fit::detail {

struct ObserverLink;

/// The state that a task of parallel_for copies from the thread that started it.
struct ThreadState {
  bool recording = true;             // whether operations are recorded, see fit/graph/graph.hpp
  DType autocast = float32;          // type for matrix products of float32, see fit/graph/autocast.hpp
  ObserverLink* observed = nullptr;  // null unless the thread is observed, see fit/graph/observer.hpp
  bool reproducible = false;         // see fit/matmul/reproducible.hpp
  std::uint64_t region = 0;          // the innermost region of the graph that is recorded, or 0; see graph/node.hpp
  bool inside_parallel = false;      // parallel_for() is sequential: in its tasks, and on threads of their own
};
// Default visibility: programs compiled with hidden visibility share the variable with the library.
[[gnu::visibility("default")]] inline thread_local ThreadState thread_state;

}  // namespace fit::detail
