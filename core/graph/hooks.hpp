#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "fit/hooks.hpp"
#include "graph/node.hpp"

// Hooks of tensors, below their public face.
namespace fit::detail {

/// A leaf in a running backward().
struct Watched {
  Node* leaf = nullptr;
  std::uint32_t run = 0;   // which backward() that is
  std::int64_t edges = 0;  // that lead to it and have not been gone along yet
  bool given = false;      // something has come
  bool called = false;
  bool aside = false;  // what the leaf had before lies in `before`: its hooks want this pass's gradient alone
  Tensor before;
  Watched* outer = nullptr;  // the same leaf in the backward() around this one
};

struct Hooks {
  struct Entry {
    std::uint64_t id;
    std::shared_ptr<const std::function<void(const Tensor&)>> call;
  };
  struct GradEntry {
    std::uint64_t id;
    std::uint32_t output;
    std::shared_ptr<const std::function<Tensor(const Tensor&)>> call;
  };
  TensorImpl* tensor = nullptr;  // a leaf's; gone where the node is detached
  std::vector<Entry> after;      // of leaves: when the gradient is in grad()
  std::vector<GradEntry> on_gradient;
  std::int64_t kept = 0;       // of a leaf: those that no handle holds any more
  Watched* watched = nullptr;  // in the innermost running backward()
};

/// How many hooks of leaves there are in this process.
extern std::atomic<std::int64_t> hook_count;

/// What is called between nodes on this thread, or null.
extern thread_local const std::function<void()>* between_nodes;

/// Calls those of a leaf that wait for its grad().
void call_hooks(Node& leaf);
/// Lets the hooks of an output see its gradient, and puts what they give in its place.
void call_grad_hooks(Node& n, std::uint32_t output, Tensor& gradient);

}  // namespace fit::detail
