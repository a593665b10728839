#pragma once
#include <memory>
#include <vector>

#include "fit/graph.hpp"

// The graph's nodes. A tensor points to the node that made it; a node points to the nodes of its inputs, never to a
// tensor's handle, so references run one way and no cycle can form.
namespace fit::detail {

struct Edge {
  Node* node;  // null where the input wants no gradient
  std::uint32_t output;
};

struct Output {
  Shape shape;
  DType dtype;
  Tensor grad;               // what has come back so far in a running backward(); of a leaf: its gradient
  Node* retained = nullptr;  // where retain_grad() keeps it: a leaf node
};

// A value kept for the adjoint: the buffer without its graph, and the version that it had.
struct Saved {
  Storage* storage;  // null: not kept
  std::int64_t offset;
  std::uint32_t version;
  DType dtype;
  Shape shape;
};

struct Hooks;

struct Node {
  std::atomic<std::uint32_t> refs{0};
  std::uint16_t input_count = 0, output_count = 0, saved_count = 0, extras_at = 0;
  std::uint32_t kept_inputs = 0;
  bool keeps_outputs = false;
  DType autocast = float32;      // under which it was recorded, and its adjoint runs
  bool released = false;         // backward() has taken it apart
  bool emptied = false;          // nothing is kept any more, and there are no edges
  std::uint8_t queued = 0;       // waits in a running backward(): how deep that is nested
  bool captured = false;         // grad() wants an output's gradient
  bool needed = true;            // lies on the way to what grad() wants
  bool detached = false;         // a leaf whose tensor is gone
  std::uint32_t marked_by = 0;   // the grad() that has seen it last
  std::uint32_t counted_by = 0;  // the backward() that has counted its edges last, for the hooks of leaves
  SizeClass size;                // of its block
  std::uint64_t sequence = 0;    // creation number: inputs have smaller ones
  const char* op = nullptr;      // null for a leaf
  void (*adjoint)(Backward&, const void*) = nullptr;
  Edge* edges = nullptr;
  Output* outputs = nullptr;
  Saved* saved = nullptr;
  void* closure = nullptr;            // of a leaf: its TensorImpl, unless that is gone
  Hooks* hooks = nullptr;             // null if there never was one
  std::shared_ptr<const void> owned;  // what the adjoint's closure points to

  bool leaf() const { return op == nullptr; }
};

/// The creation number of the newest node of this thread.
std::uint64_t newest_sequence() noexcept;
/// A node and all that it was computed from, in the order of their making, leaves first.
std::vector<Node*> nodes_behind(Node* last);

Node* new_leaf(const Shape& shape, DType dtype);
void drop_node(Node* n) noexcept;
void free_hooks(Hooks* hooks) noexcept;
/// Lets go of what a node keeps for its adjoint, and of the nodes of its inputs.
void forget_kept(Node& n) noexcept;
void forget_edges(Node& n) noexcept;

}  // namespace fit::detail
