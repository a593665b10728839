#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "fit/graph/graph.hpp"

// The nodes of the graph. A tensor points to the node that computed it, and a node points to the nodes of its inputs,
// never to a tensor. References have one direction, so no cycle can form.
namespace fit::detail {

struct Edge {
  Node* node;  // null if the input requires no gradient
  std::uint32_t output;
};

struct Output {
  Shape shape;
  DType dtype;
  Tensor grad;               // the gradient so far in a running backward(); of a leaf: its gradient
  Node* retained = nullptr;  // a leaf node for retain_grad(), or null
};

// A value kept for the adjoint: the buffer without graph, and its version at that time.
struct Saved {
  Storage* storage;  // null: not kept
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
  DType autocast = float32;      // at recording time; its adjoint uses it, too
  bool released = false;         // backward() has freed the kept values
  bool emptied = false;          // no kept values and no edges any more
  std::uint8_t queued = 0;       // nesting depth of the backward() in whose queue it waits; 0: none
  bool captured = false;         // grad() returns an output's gradient
  bool needed = true;            // on a path to an input of grad()
  bool detached = false;         // a leaf without a tensor that trains: it was destroyed, or is frozen
  bool replaced = false;         // a leaf whose tensor has another type since, and another leaf
  std::uint32_t marked_by = 0;   // the last grad() that marked it
  std::uint32_t counted_by = 0;  // the last backward() that counted its edges for hooks of leaves; of a leaf: the last
                                 // outermost one that gave it a gradient
  SizeClass size;                // of its memory block
  std::uint64_t sequence = 0;    // creation number: inputs have smaller ones
  std::uint64_t region = 0;      // the innermost region that recorded it, or 0
  const char* op = nullptr;      // null for a leaf
  void (*adjoint)(Backward&, const void*) = nullptr;
  Edge* edges = nullptr;
  Output* outputs = nullptr;
  Saved* saved = nullptr;
  void* closure = nullptr;            // of a leaf: its TensorImpl, if alive
  Hooks* hooks = nullptr;             // null if no hook was ever added
  std::shared_ptr<const void> owned;  // the object to which the adjoint's closure points

  bool leaf() const { return op == nullptr; }
};

/// The tensors from outside that the recorded operations of a thread read, and their versions at the first read.
struct ReadLog {
  struct Read {
    Tensor tensor;
    std::uint32_t version;
  };
  void note(const TensorImpl& t);
  void note(const Inputs& in, const Keep& keep);

  std::uint64_t region = 0;  // nodes of earlier ones are from outside
  std::unordered_map<const Storage*, Read> reads;
};
inline thread_local ReadLog* read_log = nullptr;  // null: nothing is noted

/// The number of a region that a thread is to record in (thread_state.region): larger than those of all before. Nodes
/// of the region and of those within it have at least its number, on whatever threads the others were recorded.
std::uint64_t new_region() noexcept;
/// The creation number of the newest node of this thread.
std::uint64_t newest_sequence() noexcept;
/// A node and all nodes from which it was computed, in creation order; leaves first.
std::vector<Node*> nodes_behind(Node* last);

Node* new_leaf(const Shape& shape, DType dtype);
void drop_node(Node* n) noexcept;
void free_hooks(Hooks* hooks) noexcept;
/// Frees the values that a node keeps for its adjoint, or its edges.
void forget_kept(Node& n) noexcept;
void forget_edges(Node& n) noexcept;

}  // namespace fit::detail
