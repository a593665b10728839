#pragma once
#include "fit/nn/dist/dist.hpp"

namespace fit::dist {

/// The ranks that compute parts of one batch, on this thread, while a DataParallel lives. Layers with statistics of the
/// batch take them over all ranks.
struct BatchRanks {
  World* world = nullptr;  // null: this thread computes full batches
  bool padding = false;    // this rank's rows are padding: they do not count
  int users = 0;           // living DataParallel objects

  void enter(World& w) { world = &w, ++users; }
  void leave() {
    if (--users == 0) *this = {};
  }
};

inline thread_local BatchRanks batch_ranks;

}  // namespace fit::dist
