#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "fit/hooks.hpp"
#include "graph/node.hpp"

// Hooks of leaves, below their public face.
namespace fit::detail {

/// A leaf in a running backward().
struct Watched {
  Node* leaf = nullptr;
  std::uint32_t run = 0;   // which backward() that is
  std::int64_t edges = 0;  // that lead to it and have not been gone along yet
  bool given = false;      // something has come
  bool called = false;
  Watched* outer = nullptr;  // the same leaf in the backward() around this one
};

struct LeafHooks {
  struct Entry {
    std::uint64_t id;
    std::shared_ptr<const std::function<void(const Tensor&)>> call;
  };
  TensorImpl* tensor;  // the leaf's; gone where the node is an orphan
  std::vector<Entry> entries;
  Watched* watched = nullptr;  // in the innermost running backward()
};

/// How many hooks there are in this process.
extern std::atomic<std::int64_t> hook_count;

/// What is called between nodes on this thread, or null.
extern thread_local const std::function<void()>* between_nodes;

/// Calls the leaf's hooks.
void call_hooks(Node& leaf);

}  // namespace fit::detail
