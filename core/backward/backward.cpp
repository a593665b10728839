// backward() and grad(): the traversal from outputs to leaves, and the Backward object of adjoints.
#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "backward/leaf_gradients.hpp"
#include "fit/ops/ops.hpp"
#include "graph/hooks.hpp"
#include "ops/elementwise/broadcast.hpp"
#include "ops/elementwise/functions.hpp"
#include "ops/elementwise/inplace.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace detail {

namespace {

// The destination of a gradient of grad().
struct Capture {
  Node* node;
  std::uint32_t output;
  Tensor* result;
};

// The gradients that a running grad() computes. It keeps those of leaves here, because other threads may use the
// leaves.
class Captures {
 public:
  void add(const Capture& c) {
    all.push_back(c);
    if (c.node->leaf()) leaves_.emplace_back(c.node, Tensor());
  }
  // Call it after the last add().
  void sort() {
    std::sort(leaves_.begin(), leaves_.end(), [](const auto& a, const auto& b) { return before(a.first, b.first); });
  }
  // The gradient so far; null if it is not asked for.
  Tensor* sum_of(const Node& leaf) {
    const auto at = std::lower_bound(leaves_.begin(), leaves_.end(), &leaf,
                                     [](const auto& a, const Node* n) { return before(a.first, n); });
    return at != leaves_.end() && at->first == &leaf ? &at->second : nullptr;
  }
  // Whether n gets a gradient.
  bool wants(const Node& n) { return n.leaf() ? sum_of(n) != nullptr : n.needed; }

  std::vector<Capture> all;

 private:
  static bool before(const Node* a, const Node* b) { return std::less<const Node*>()(a, b); }
  std::vector<std::pair<const Node*, Tensor>> leaves_;
};

[[noreturn]] void fail_walked(const char* op) {
  check::fail(
      "backward", "the graph at ", op,
      " is being walked by the backward() around this one: its adjoints and hooks can't go through it themselves");
}

std::uint8_t next_depth(std::uint8_t outer) {
  if (outer == UINT8_MAX)
    check::fail("backward", "more than ", UINT8_MAX, " calls of backward() and grad() are nested");
  return static_cast<std::uint8_t>(outer + 1);
}

// One running backward(). It processes nodes in reverse order of creation: all users of a node come before the node.
class Run {
 public:
  Run(bool retain, Captures* captures)
      : retain_(retain),
        captures_(captures),
        outer_(current),
        depth_(outer_ ? next_depth(outer_->depth_) : 1),
        leaves_(outer_ ? &outer_->leaves_ : nullptr) {
    heap_.swap(spare);
    current = this;
  }
  ~Run() {
    for (Node* n : heap_) finish(n);  // nonempty only after an exception
    heap_.clear();
    heap_.swap(spare);
    current = outer_;
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void push(Node* n) {
    if (n->queued == depth_) return;
    if (n->queued) fail_walked(n->op);
    heap_.push_back(n);  // first, because it may throw
    n->queued = depth_;
    hold(n->refs);
    std::push_heap(heap_.begin(), heap_.end(), earlier);
  }

  void all() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), earlier);
      {
        const Tidy active{heap_.back()};
        heap_.pop_back();
        one(*active.node);
      }
      leaves_.call();
    }
    leaves_.rest();
  }

  // Whether n gets a gradient.
  bool wants(const Node& n) const {
    if (captures_) return captures_->wants(n);
    if (!n.detached) return n.needed;
    if (n.replaced)
      check::fail("backward", "a leaf of shape ", n.outputs[0].shape, " and type ", n.outputs[0].dtype,
                  " has another type now: convert it before the forward pass");
    return false;
  }
  // The gradient so far of an output of a node that gets one, to add to.
  Tensor& begun_sum(Node& n, std::uint32_t output) {
    if (n.leaf() && !captures_) leaves_.begin_sum(n);
    Tensor& sum = n.leaf() && captures_ ? *captures_->sum_of(n) : n.outputs[output].grad;
    leaves_.widen(n, sum);
    return sum;
  }

  // Adds g to it.
  void add(Node& n, std::uint32_t output, Tensor&& g) {
    Tensor& total = begun_sum(n, output);
    accumulate(n, total, std::move(g));
    leaves_.gave(n);
  }

  bool retains() const { return retain_; }
  LeafGradients& leaves() { return leaves_; }

  static thread_local Run* current;

 private:
  static bool earlier(const Node* a, const Node* b) { return a->sequence < b->sequence; }

  static void finish(Node* n) noexcept {
    n->queued = 0;
    for (int i = 0; i < n->output_count; ++i) n->outputs[i].grad = Tensor();
    drop_node(n);
  }

  struct Tidy {
    Node* node;
    ~Tidy() { finish(node); }
  };

  void one(Node& n);

  std::vector<Node*> heap_;
  bool retain_;
  Captures* captures_;  // null: backward()
  Run* outer_;
  std::uint8_t depth_;  // 1 for the outermost
  LeafGradients leaves_;
  static thread_local std::vector<Node*> spare;  // its capacity is reused
};
thread_local Run* Run::current = nullptr;
thread_local std::vector<Node*> Run::spare;

[[noreturn]] void fail_released(const char* op) {
  check::fail("backward", "the graph at ", op,
              " was taken apart by an earlier backward(): pass retain_graph to that one to go through it twice");
}

// The same behind a newer operation: there, the graph is more often old by mistake.
[[noreturn]] void fail_old(const char* op) {
  check::fail(
      "backward", "the graph at ", op,
      " is from before an earlier backward(), which took it apart: compute its result anew in each step, not in a "
      "constructor or before the loop; or detach() a state that one step hands to the next. To go through one graph "
      "twice, pass retain_graph to the first backward()");
}

}  // namespace

void accumulate(const Node& to, Tensor& sum, Tensor&& g) {
  if (!sum.defined()) {
    sum = to.leaf() && !g.unique() ? g.clone() : std::move(g);
  } else if (!thread_state.recording && (to.leaf() || sum.unique())) {
    if (g.dtype() != sum.dtype()) g = g.to(sum.dtype());
    add_into(sum, g);
  } else {
    sum = add(sum, g);
  }
}

namespace {

void Run::one(Node& n) {
  if (n.hooks)
    for (int i = 0; i < n.output_count; ++i) call_grad_hooks(n, static_cast<std::uint32_t>(i), n.outputs[i].grad);
  for (int i = 0; i < n.output_count; ++i)
    if (Node* kept = n.outputs[i].retained; kept && !kept->detached && n.outputs[i].grad.defined())
      accumulate(*kept, kept->outputs[0].grad, Tensor(n.outputs[i].grad));
  if (n.captured)
    for (Capture& c : captures_->all)
      if (c.node == &n) *c.result = n.outputs[c.output].grad;
  if (n.released) fail_old(n.op);
  leaves_.before(n);
  Backward b(n);
  std::uint64_t wanted = 0;  // bit i: input i; the inputs from 63 on share a bit
  for (int i = 0; i < n.input_count; ++i) wanted |= std::uint64_t{b.wants(i)} << std::min(i, 63);
  if (wanted) {
    const Scoped precision(thread_state.autocast, n.autocast);
    thread_state.observed ? run_observed(n, b) : n.adjoint(b, n.closure);
  }
  b.expect_given(wanted);
  leaves_.passed(n);
  if (!retain_) {
    n.released = true;
    forget_kept(n);
    forget_edges(n);
    leaves_.end_sums();
    n.emptied = true;
    if (ObserverList* const all = n.hooks ? n.hooks->on_gradient.list() : nullptr)
      all->clear();  // no further gradient can come here
  }
}

// The reason why y is not connected to a tensor that requires a gradient, where it was cut, and the remedy.
std::string why_cut(const TensorImpl& y) {
  if (!y.cut_at)
    return "was not computed from any that wants a gradient: argmax(), comparisons, integers, item() and sample() pass "
           "none on. Without these, call requires_grad_() on the leaves that are to be trained, not on the result";
  const std::string at = y.cut_at;
  switch (y.cut) {
    case Cut::no_grad:
      return "has no graph: it was cut at " + at +
             ", which ran under NoGrad on a tensor that wants gradients. Compute it outside of NoGrad; if a leaf was "
             "replaced there (w = w - …), change it in place: w.sub_(…)";
    case Cut::detach:
      return "has no graph: a tensor was detach()ed" + (at.empty() ? "" : " before " + at) +
             ". Compute the loss from the tensor itself";
    case Cut::frozen:
      return "has no graph: all leaves it came from are frozen" +
             (at.empty() ? "" : " (the first is used by " + at + ")") +
             ". Call unfreeze() on the layer, or requires_grad_() on the leaf";
  }
  return {};
}

Span<const Tensor> all_of(const std::vector<Tensor>& list) {
  return {list.data(), static_cast<std::int64_t>(list.size())};
}

// Seeds the outputs and traverses the graph.
void walk(Span<const Tensor> outputs, Span<const Tensor> seeds, GraphFlags flags, Captures* captures, const char* op) {
  const Scoped mode(thread_state.recording, flags & create_graph);
  Run run(flags & (retain_graph | create_graph), captures);
  if (!captures && (hook_count.load() > 0 || thread_state.observed)) run.leaves().begin(outputs);
  for (std::int64_t k = 0; k < outputs.size(); ++k) {
    const Tensor& y = outputs[k];
    if (!y.requires_grad()) check::fail(op, "the tensor of shape ", y.shape(), ' ', why_cut(*y.impl()));
    Tensor seed = k < seeds.size() ? seeds[k] : Tensor();
    if (!seed.defined()) {
      if (y.numel() != 1)
        check::fail(op, captures ? joined("output ", k, " has no grad_output and ") : "the tensor has ", "shape ",
                    y.shape(), ", not one element: call sum() or mean() first, or pass a seed of shape ", y.shape());
      seed = full(y.shape(), 1, y.dtype());
    }
    if (seed.shape() != y.shape())
      check::fail(op, "the seed has shape ", seed.shape(), ", the tensor ", y.shape(), ": they must be equal");
    if (seed.dtype() != y.dtype()) seed = seed.to(y.dtype());
    Node& n = *y.impl()->node;
    if (n.released) fail_released(n.op);
    if (!run.wants(n)) continue;
    if (!n.leaf()) run.push(&n);  // before it gets a gradient: cleanup only frees gradients of queued nodes
    run.add(n, y.impl()->output, std::move(seed));
  }
  run.all();
}

// Marks the nodes between the outputs and the inputs of grad(), and restores all marks at the end. Leaves get no mark:
// other threads may use them.
class Marks {
 public:
  // A delegating constructor, so that the destructor restores the marks if the rest throws.
  Marks(const std::vector<Tensor>& outputs, Captures& captures) : Marks() {
    for (const Tensor& y : outputs)
      if (y.requires_grad()) visit(y.impl()->node);
    for (std::size_t i = 0; i < reached_.size(); ++i)
      for (int k = 0; k < reached_[i].node->input_count; ++k)
        if (Node* to = reached_[i].node->edges[k].node) visit(to);
    for (Capture& c : captures.all)
      if (!c.node->leaf() && c.node->marked_by == id_) c.node->captured = true;
    std::sort(reached_.begin(), reached_.end(),
              [](const Reached& a, const Reached& b) { return a.node->sequence < b.node->sequence; });
    for (const Reached& r : reached_) {
      Node* const n = r.node;
      n->needed = n->captured || n->released;  // the edges of a released node are unknown: the traversal fails there
      for (int k = 0; k < n->input_count && !n->needed; ++k)
        n->needed = n->edges[k].node && captures.wants(*n->edges[k].node);
    }
  }
  ~Marks() {
    for (const Reached& r : reached_) {
      r.node->marked_by = r.marked_by;
      r.node->captured = r.captured;
      r.node->needed = r.needed;
      drop_node(r.node);
    }
  }
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

 private:
  Marks() = default;

  // A node and its earlier marks: an adjoint may call grad() during another grad().
  struct Reached {
    Node* node;
    std::uint32_t marked_by;
    bool captured, needed;
  };

  void visit(Node* n) {
    if (n->leaf() || n->marked_by == id_) return;
    reached_.push_back({n, n->marked_by, n->captured, n->needed});
    n->marked_by = id_;
    n->captured = false;
    hold(n->refs);
  }

  static std::uint32_t next_id() {
    static std::atomic<std::uint32_t> last{0};
    return ++last;
  }

  const std::uint32_t id_ = next_id();
  std::vector<Reached> reached_;
};

}  // namespace
}  // namespace detail

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs, GraphFlags flags) {
  if (grad_outputs.size() > outputs.size())
    check::fail("grad", grad_outputs.size(), " grad_outputs for ", outputs.size(), " outputs: at most one for each");
  std::vector<Tensor> results(inputs.size());
  detail::Captures captures;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad())
      check::fail("grad", "input ", i, " of shape ", inputs[i].shape(),
                  " wants no gradient: call requires_grad_() on it before computing the outputs");
    captures.add({inputs[i].impl()->node, inputs[i].impl()->output, &results[i]});
  }
  captures.sort();
  const detail::Marks marks(outputs, captures);
  detail::walk(detail::all_of(outputs), detail::all_of(grad_outputs), flags, &captures, "grad");
  for (detail::Capture& c : captures.all)
    if (c.node->leaf()) {
      *c.result = *captures.sum_of(*c.node);
      detail::call_grad_hooks(*c.node, c.output, *c.result);
    }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!results[i].defined() && !(flags & allow_unused))
      check::fail("grad", "the outputs do not depend on input ", i, " of shape ", inputs[i].shape(),
                  ": pass allow_unused to get an undefined tensor for it");
  return results;
}

void Tensor::backward(const Tensor& seed, GraphFlags flags) const {
  detail::walk({this, 1}, {&seed, 1}, flags, nullptr, "backward");
}

// ---- Backward: the argument of an adjoint --------------------------------------------------------------------------

namespace {

// Adjoints may be written by users, so these check the indices.
[[noreturn, gnu::cold]] void fail_count(const char* op, const char* what, int i, int count) {
  check::fail(op, "its adjoint asks for ", what, ' ', i, ": record() was given ", count, " of them");
}
int counted(const detail::Node& n, const char* what, int i, int count) {
  if (i < 0 || i >= count) fail_count(n.op, what, i, count);
  return i;
}
int output_of(const detail::Node& n, int i) { return counted(n, "output", i, n.output_count); }
int saved_of(const detail::Node& n, int i) {
  return n.extras_at + counted(n, "saved value", i, n.saved_count - n.extras_at);
}
const detail::Edge& edge_of(const detail::Node& n, int i) { return n.edges[counted(n, "input", i, n.input_count)]; }

bool wants_gradient(const detail::Node& n, int i) {
  const detail::Node* const to = edge_of(n, i).node;
  return to && detail::Run::current->wants(*to);
}

const detail::Output& wanted(const detail::Node& n, int i) {
  const detail::Edge& e = edge_of(n, i);
  if (!e.node)
    check::fail(n.op, "its adjoint asks for the shape or gradient of input ", i, ", which wants none: ask wants(", i,
                ") first");
  return e.node->outputs[e.output];
}

[[noreturn]] void fail_changed(const char* op, const Shape& shape, std::uint32_t then, std::uint32_t now) {
  check::fail("backward", "a tensor of shape ", shape, " that ", op,
              " needs for its gradient was changed in place after it was recorded (version ", then, " then, ", now,
              " now): change a clone() of it instead; if it is a weight that an optimiser's step() has changed since, "
              "compute the result anew after the step");
}

}  // namespace

Tensor Backward::restore(int slot, detail::Node* node, int output) {
  const detail::Saved& s = node_.saved[slot];
  if (!s.storage) return {};
  if (const std::uint32_t now = s.storage->version.load(std::memory_order_relaxed); now != s.version)
    fail_changed(node_.op, s.shape, s.version, now);
  detail::hold(s.storage->refs);
  detail::TensorImpl* t = detail::new_impl(s.storage, s.shape, s.dtype);
  if (detail::thread_state.recording && node) {
    detail::hold(node->refs);
    t->node = node;
    t->output = static_cast<std::uint16_t>(output);
  }
  return Tensor::adopt(t);
}

Tensor Backward::dy(int i) {
  const detail::Output& o = node_.outputs[output_of(node_, i)];
  if (o.grad.defined()) return o.grad;
  if (i < 64 && taken_ >> i & 1) check::fail(node_.op, "its adjoint asks for dy(", i, ") after take_dy(", i, ")");
  return zeros(o.shape, o.dtype);
}
Tensor Backward::take_dy(int i) {
  Tensor& grad = node_.outputs[output_of(node_, i)].grad;
  if (!grad.defined() || i >= 64) return dy(i);
  taken_ |= std::uint64_t{1} << i;
  return std::move(grad);
}
bool Backward::has_dy(int i) const { return node_.outputs[output_of(node_, i)].grad.defined(); }

int Backward::slot_of_x(int i) const { return __builtin_popcount(node_.kept_inputs & ((1u << i) - 1)); }

Tensor Backward::x(int i) {
  const detail::Edge& from = edge_of(node_, i);
  if (i >= 32 || !(node_.kept_inputs >> i & 1))
    check::fail(node_.op, "its adjoint asks for input ", i, ", which was not kept: give keep::inputs or keep::input(",
                i, ") to record()");
  return restore(slot_of_x(i), from.node, static_cast<int>(from.output));
}

Tensor Backward::take_x(int i) {
  Tensor t = x(i);
  if (detail::Run::current->retains()) return t;
  node_.released = true;  // even if the adjoint throws later
  if (detail::Storage* s = std::exchange(node_.saved[slot_of_x(i)].storage, nullptr)) detail::drop(s->refs);
  return t;
}

Tensor Backward::y(int i) {
  output_of(node_, i);
  if (!node_.keeps_outputs)
    check::fail(node_.op, "its adjoint asks for an output, which was not kept: give keep::output to record()");
  return restore(__builtin_popcount(node_.kept_inputs) + i, &node_, i);
}
Tensor Backward::saved(int i) { return restore(saved_of(node_, i), nullptr, 0); }
bool Backward::has_saved(int i) const { return node_.saved[saved_of(node_, i)].storage != nullptr; }

bool Backward::wants(int i) const { return wants_gradient(node_, i); }
const Shape& Backward::shape(int i) const { return wanted(node_, i).shape; }
DType Backward::dtype(int i) const { return wanted(node_, i).dtype; }
int Backward::inputs() const { return node_.input_count; }

void Backward::fail_forgotten(std::uint64_t forgotten) const {
  for (int i = 0; i < node_.input_count; ++i)
    if (forgotten >> std::min(i, 63) & 1 && wants(i))
      check::fail(node_.op, "its adjoint gives input ", i, " of shape ", shape(i),
                  " no gradient, though it wants one: call b.give(", i, ", …), or b.give(", i,
                  ", Tensor()) if the outputs do not depend on it");
}

void Backward::give(int i, Tensor g) {
  if (!wants_gradient(node_, i)) return;
  note_given(i);
  if (!g.defined()) return;
  detail::Node* to = node_.edges[i].node;
  detail::Output& o = to->outputs[node_.edges[i].output];
  if (g.shape() != o.shape) {
    if (!broadcasts_to(o.shape, g.shape()))
      check::fail(node_.op, "its adjoint gives input ", i, " of shape ", o.shape, " a gradient of shape ", g.shape(),
                  ": it must be of the input's shape, or of one that the input broadcasts to");
    g = detail::sum_to(g, o.shape, o.dtype);
  }
  if (g.dtype() != o.dtype) g = g.to(o.dtype);
  if (!to->leaf()) detail::Run::current->push(to);
  detail::Run::current->add(*to, node_.edges[i].output, std::move(g));
}

bool Backward::waits(int i) const {
  const detail::Node* const to = edge_of(node_, i).node;
  if (!wants(i) || !to->leaf() || detail::thread_state.observed || detail::Run::current->retains()) return false;
  // A leaf that is read may be changed before, in a hook, when its own gradient is complete.
  for (int k = 0; k < node_.input_count; ++k)
    if (const detail::Node* const other = node_.edges[k].node; other && k != i && other->leaf()) return false;
  return detail::Run::current->leaves().waits(*to);
}

void Backward::give_later(int i, const std::vector<Tensor>& read, std::function<Tensor()> gradient) {
  if (!waits(i)) return give(i, gradient());
  note_given(i);
  std::vector<std::pair<Tensor, std::uint32_t>> versions;
  for (const Tensor& x : read) versions.emplace_back(x, x.version());
  const detail::Edge edge = node_.edges[i];  // the pending leaf holds its node
  auto add = [edge, versions = std::move(versions), gradient = std::move(gradient), op = node_.op,
              autocast = node_.autocast] {
    if (edge.node->detached) return;
    for (const auto& [x, version] : versions)
      if (x.version() != version) fail_changed(op, x.shape(), version, x.version());
    const detail::Scoped precision(detail::thread_state.autocast, autocast);
    const detail::Output& o = edge.node->outputs[edge.output];
    Tensor g = gradient();
    check::shape(op, "the gradient of give_later()", g, o.shape);
    check::dtype(op, "the gradient of give_later()", g, o.dtype);
    detail::Run::current->add(*edge.node, edge.output, std::move(g));
  };
  detail::LeafGradients::postpone(*edge.node, std::move(add));
}

Backward::Target Backward::target(int i) {
  wanted(node_, i);
  note_given(i);
  detail::Node* to = node_.edges[i].node;
  const detail::Output& o = to->outputs[node_.edges[i].output];
  Tensor& sum = detail::Run::current->begun_sum(*to, node_.edges[i].output);
  const bool add = sum.defined();
  if (!to->leaf()) detail::Run::current->push(to);
  if (!add)
    sum = Tensor::empty(o.shape, o.dtype);
  else if (!to->leaf() && !sum.unique())
    sum = sum.clone();
  if (add) sum.before_write(node_.op);
  detail::Run::current->leaves().gave(*to);
  return {sum, add};
}

void Backward::once_only() const {
  if (recording())
    check::fail(node_.op, "has no derivative of this order: leave out create_graph, or use its decomposition");
}

}  // namespace fit
