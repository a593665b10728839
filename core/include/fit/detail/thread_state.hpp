#pragma once
#include "fit/shape.hpp"

namespace fit::detail {

class Anomalies;

/// What a task of parallel_for takes over from the thread that started it.
struct ThreadState {
  bool recording = true;           // whether operations are recorded, see fit/graph.hpp
  DType autocast = float32;        // what products of float32 are computed in, see fit/autocast.hpp
  Anomalies* anomalies = nullptr;  // looks at each result, see graph/anomalies.hpp; null unless somebody asked for it
};
// Programs that hide what they define share it with the library all the same.
[[gnu::visibility("default")]] inline thread_local ThreadState thread_state;

}  // namespace fit::detail
