#pragma once

#include "fit/detail/function.hpp"
#include "fit/graph/hooks.hpp"
#include "graph/node.hpp"
#include "graph/observers.hpp"

// Internals of tensor hooks.
namespace fit::detail {

/// State of a leaf in a running backward().
struct PendingLeaf {
  Node* leaf = nullptr;
  std::uint32_t run = 0;   // identifies the backward()
  std::int64_t edges = 0;  // edges to the leaf that are not processed yet
  bool given = false;      // the leaf got a gradient in this pass
  bool called = false;
  bool aside = false;  // the earlier gradient is in `before`, because hooks get this pass's gradient only
  Tensor before;
  std::function<void()> later;   // adds the gradient of Backward::give_later(), or is empty
  PendingLeaf* outer = nullptr;  // the same leaf in the enclosing backward()
};

/// The observers of a node's tensors.
struct Hooks {
  TensorImpl* tensor = nullptr;    // of a leaf; dangling if the node is detached
  Attached accumulated;            // of a leaf: notified when grad() is complete
  Attached on_gradient;            // entries have the output as their part
  PendingLeaf* pending = nullptr;  // in the innermost running backward()
};
/// The hooks of a node; creates them if needed.
Hooks& hooks_of(Node& n);

/// The number of observers of all leaves in this process.
extern Atomic<std::int64_t> hook_count;

/// Notifies the observers of a leaf and of the thread that the leaf's grad() is complete.
void notify_accumulated(Node& leaf);
/// Passes the gradient of an output to its observers, which may replace it.
void call_grad_hooks(Node& n, std::uint32_t output, Tensor& gradient);

}  // namespace fit::detail
