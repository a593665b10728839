#pragma once
#include <atomic>

#include "fit/hooks.hpp"
#include "graph/node.hpp"
#include "graph/observers.hpp"

// Hooks of tensors, below their public face.
namespace fit::detail {

/// A leaf in a running backward().
struct PendingLeaf {
  Node* leaf = nullptr;
  std::uint32_t run = 0;   // which backward() that is
  std::int64_t edges = 0;  // that lead to it and have not been gone along yet
  bool given = false;      // something has come
  bool called = false;
  bool aside = false;  // what the leaf had before lies in `before`: its hooks want this pass's gradient alone
  Tensor before;
  PendingLeaf* outer = nullptr;  // the same leaf in the backward() around this one
};

/// The observers of a node's tensors.
struct Hooks {
  TensorImpl* tensor = nullptr;    // of a leaf; gone where the node is detached
  Attached accumulated;            // of a leaf: told when the gradient is in grad()
  Attached on_gradient;            // part: the output
  PendingLeaf* pending = nullptr;  // in the innermost running backward()
};
/// Those of a node; makes them.
Hooks& hooks_of(Node& n);

/// How many observers all leaves of this process have.
extern std::atomic<std::int64_t> hook_count;

/// Tells the observers of a leaf, and those of the thread, that its grad() is complete.
void tell_accumulated(Node& leaf);
/// Lets the observers of an output see its gradient, and replace it.
void call_grad_hooks(Node& n, std::uint32_t output, Tensor& gradient);

}  // namespace fit::detail
