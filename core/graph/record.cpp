// Creation of graph nodes by record(), and their destruction without recursion.
#include <algorithm>
#include <new>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fit/base/memory.hpp"
#include "graph/node.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace detail {

void store_cut(const char* op, const TensorImpl& from, const Tensor& y) {
  y.impl()->cut = from.node ? Cut::no_grad : from.cut;
  y.impl()->cut_at = from.cut_at && *from.cut_at ? from.cut_at : op;
}

void forget_kept(Node& n) noexcept {
  for (int i = 0; i < n.saved_count; ++i)
    if (Storage* s = std::exchange(n.saved[i].storage, nullptr); s && drop(s->refs)) free_storage(s);
  n.owned.reset();
}

void forget_edges(Node& n) noexcept {
  for (int i = 0; i < n.input_count; ++i)
    if (Node* to = std::exchange(n.edges[i].node, nullptr)) drop_node(to);
}

namespace {

thread_local std::uint64_t last_sequence = 0;
thread_local Node* pending_free = nullptr;  // nodes with a reference count of zero, linked through closure
thread_local bool freeing = false;

Saved save(const Tensor& t) {
  if (!t.defined()) return {nullptr, 0, float32, {}};
  const TensorImpl& i = *t.impl();
  hold(i.storage->refs);
  return {i.storage, i.storage->version.load(std::memory_order_relaxed), i.dtype, i.shape};
}

void destroy(Node* n) noexcept {
  if (!n->emptied) {
    forget_kept(*n);
    forget_edges(*n);
  }
  for (int i = 0; i < n->output_count; ++i) {
    if (n->outputs[i].retained) drop_node(n->outputs[i].retained);
    n->outputs[i].~Output();
  }
  if (n->hooks) free_hooks(n->hooks);
  const SizeClass size = n->size;
  n->~Node();
  release(n, size);
}

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 15) & ~std::size_t{15}; }

// One memory block for the node, its edges, outputs, kept values and closure.
Node* allocate_node(int inputs, int outputs, int saved, std::size_t closure) {
  const std::size_t at_edges = padded(sizeof(Node)), at_outputs = at_edges + padded(sizeof(Edge) * inputs),
                    at_saved = at_outputs + padded(sizeof(Output) * outputs),
                    at_closure = at_saved + padded(sizeof(Saved) * saved);
  const SizeClass size = size_class(at_closure + closure);
  char* block = static_cast<char*>(acquire(size));
  Node* n = new (block) Node;
  n->size = size;
  n->input_count = static_cast<std::uint16_t>(inputs);
  n->output_count = static_cast<std::uint16_t>(outputs);
  n->saved_count = static_cast<std::uint16_t>(saved);
  n->edges = reinterpret_cast<Edge*>(block + at_edges);
  n->outputs = reinterpret_cast<Output*>(block + at_outputs);
  n->saved = reinterpret_cast<Saved*>(block + at_saved);
  n->closure = block + at_closure;
  return n;
}

}  // namespace

void ReadLog::note(const TensorImpl& t) {
  if (reads.count(t.storage)) return;
  hold(t.storage->refs);
  const Tensor same = Tensor::adopt(new_impl(t.storage, t.shape, t.dtype));
  reads.emplace(t.storage, Read{same, same.version()});
}

void ReadLog::note(const Inputs& in, const Keep& keep) {
  const auto add = [this](const TensorImpl* t) {
    if (t && (!t->node || t->node->region < region)) note(*t);
  };
  for (int i = 0; i < in.size(); ++i) add(in[i].impl());
  for (int i = 0; i < keep.extra_count; ++i) add(keep.extras[i]->impl());
}

std::uint64_t newest_sequence() noexcept { return last_sequence; }

std::uint64_t new_region() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::vector<Node*> nodes_behind(Node* last) {
  std::vector<Node*> found{last};
  std::unordered_set<const Node*> seen{last};
  for (std::size_t i = 0; i < found.size(); ++i)
    for (int e = 0; e < found[i]->input_count; ++e)
      if (Node* const n = found[i]->edges[e].node; n && seen.insert(n).second) found.push_back(n);
  std::reverse(found.begin(), found.end());
  std::stable_sort(found.begin(), found.end(), [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
  return found;
}

void fail_extras() {
  check::fail("keep", "more than ", Keep::max_extras, " values can't be kept by keep::saved: join some by cat()");
}

void drop_node(Node* n) noexcept {
  if (!drop(n->refs)) return;
  // Recursion would be as deep as the chain is long. So nodes are put into a list and freed one at a time.
  n->closure = pending_free;
  pending_free = n;
  if (freeing) return;
  freeing = true;
  while (Node* next = pending_free) {
    pending_free = static_cast<Node*>(next->closure);
    destroy(next);
  }
  freeing = false;
}

Node* new_leaf(const Shape& shape, DType dtype) {
  Node* n = allocate_node(0, 1, 0, 0);
  n->refs.store(1, std::memory_order_relaxed);
  new (&n->outputs[0]) Output{shape, dtype, Tensor(), nullptr};
  return n;
}

namespace {

void check_outputs(const char* op, const Inputs& in, const Tensor* outputs, int count) {
  for (int k = 0; k < count; ++k) {
    if (!outputs[k].defined()) check::fail(op, "output ", k, " given to record() is undefined");
    for (int i = 0; i < in.size(); ++i)
      if (in[i].impl() == outputs[k].impl())
        check::fail(op, "output ", k, " given to record() is input ", i,
                    " itself: give a tensor of its own, a clone()");
  }
}

// Sets the edges to the nodes of the inputs, and the node's place behind them. Keeps inputs from `slot` on, and returns
// the slot behind them.
Saved* attach_inputs(Node& n, const Inputs& in, Saved* slot) {
  std::uint64_t sequence = last_sequence;
  for (int i = 0; i < in.size(); ++i) {
    const TensorImpl* t = in[i].impl();
    n.edges[i] = {t ? t->node : nullptr, t ? t->output : 0u};
    if (t && t->node) {
      hold(t->node->refs);
      sequence = std::max(sequence, t->node->sequence);
    }
    if (n.kept_inputs != 0 && n.kept_inputs >> i & 1) *slot++ = save(in[i]);
  }
  n.sequence = last_sequence = sequence + 1;
  n.region = thread_state.region;
  return slot;
}

// Makes n the node of its outputs. Keeps them from `slot` on, if it is to keep them, and returns the slot behind them.
Saved* attach_outputs(Node& n, const Tensor* outputs, Saved* slot) {
  n.refs.store(n.output_count, std::memory_order_relaxed);
  for (int i = 0; i < n.output_count; ++i) {
    TensorImpl* t = outputs[i].impl();
    new (&n.outputs[i]) Output{t->shape, t->dtype, Tensor(), nullptr};
    if (n.keeps_outputs) *slot++ = save(outputs[i]);
    if (is_floating(t->dtype)) {
      if (t->node) drop_node(t->node);
      t->node = &n;
      t->output = static_cast<std::uint16_t>(i);
    } else {
      n.refs.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  return slot;
}

}  // namespace

void* attach_node(const char* op, const Inputs& in, Tensor* outputs, int count, const Keep& keep,
                  void (*adjoint)(Backward&, const void*), std::size_t bytes) {
  const std::uint32_t mask = in.size() >= 32 ? 0 : keep.inputs & ((1u << in.size()) - 1);
  if (in.size() >= 32 && keep.inputs != 0) check::fail(op, "more than 31 inputs can't be kept by keep::input(s)");
  check_outputs(op, in, outputs, count);
  if (read_log) read_log->note(in, keep);
  // Avoids __builtin_popcount if possible: it is a function call without the popcnt instruction.
  const int kept = mask == 0 || in.size() == 1 ? static_cast<int>(mask) : __builtin_popcount(mask),
            saved = kept + (keep.outputs ? count : 0) + keep.extra_count;
  Node* n = allocate_node(in.size(), count, saved, bytes);
  n->op = op;
  n->adjoint = adjoint;
  n->autocast = thread_state.autocast;
  n->kept_inputs = mask;
  n->keeps_outputs = keep.outputs;
  n->extras_at = static_cast<std::uint16_t>(saved - keep.extra_count);
  Saved* slot = attach_outputs(*n, outputs, attach_inputs(*n, in, n->saved));
  for (int i = 0; i < keep.extra_count; ++i) *slot++ = save(*keep.extras[i]);
  return n->closure;
}

}  // namespace detail

bool grad_enabled() { return detail::thread_state.recording; }

}  // namespace fit
