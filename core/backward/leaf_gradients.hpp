#pragma once
#include <atomic>
#include <list>
#include <vector>

#include "base/acc_type.hpp"
#include "graph/hooks.hpp"

namespace fit::detail {

/// Adds g to a sum of gradients of `to`. The first g is moved into `sum`. Later ones are added, in place if no other
/// tensor shares the buffer.
void accumulate(const Node& to, Tensor& sum, Tensor&& g);

/// The gradients of leaves in a running backward(): their sums, and when those of observed leaves are complete. It
/// counts the edges to these leaves in the graph of the outputs, and counts down as nodes are processed. A thread's
/// observer observes all leaves.
///
/// The contributions of one backward() are summed by themselves, and the sum is added to an earlier gradient once. So
/// two accumulated batches have the bits of two ranks, which add their sums.
class LeafGradients {
 public:
  /// `outermost` are those of the outermost backward(), which keeps the earlier gradients; null: these.
  explicit LeafGradients(LeafGradients* outermost) : outermost_(outermost ? outermost->outermost_ : *this) {}
  ~LeafGradients() {
    try {
      round();
    } catch (...) {  // out of memory: sums remain float32
    }
    while (!earlier_.empty()) try {
        add_earlier(earlier_.size() - 1);
      } catch (...) {  // out of memory: the earlier gradient remains
      }
    for (PendingLeaf& w : leaves_) {
      if (w.aside) put_back(w);
      w.leaf->hooks->pending = w.outer;
      drop_node(w.leaf);
    }
  }
  LeafGradients(const LeafGradients&) = delete;
  LeafGradients& operator=(const LeafGradients&) = delete;

  /// Call before this backward() adds to grad() of a leaf: sets an earlier gradient aside.
  void begin_sum(Node& leaf) {
    if (leaf.counted_by != outermost_.sums_) outermost_.set_aside(leaf);
  }
  /// Adds the sums of leaves that no graph refers to any more to their earlier gradients, so that these need no memory.
  /// Mostly the last one set aside is complete first. The search ends at one that is not: it takes no time at each
  /// node.
  void end_sums() {
    auto& earlier = outermost_.earlier_;
    constexpr std::uint32_t refs = 2;  // its tensor, and earlier_
    while (!earlier.empty() && earlier.back().leaf->refs.load(std::memory_order_relaxed) == refs)
      outermost_.add_earlier(earlier.size() - 1);
  }

  /// Call before a number is added to the sum of a leaf's gradients. A sum of a narrow type is wide until round(): with
  /// 8 bits, 256 + 1 is 256.
  void widen(Node& n, Tensor& sum) {
    if (n.leaf() && sum.defined() && is_narrow(sum.dtype())) keep_wide(n, sum);
  }
  /// Rounds the sums of a leaf, or of all, into their own buffers.
  void round(const Node* of = nullptr) {
    for (std::size_t i = wide_.size(); i-- > 0;) {
      if (of && wide_[i].leaf != of) continue;
      const WideSum w = std::move(wide_[i]);
      wide_.erase(wide_.begin() + static_cast<std::ptrdiff_t>(i));
      const DropNode drop{w.leaf};
      if (!w.sum->defined() || w.sum->dtype() != acc_dtype(w.own.dtype())) continue;
      if (thread_state.recording) {
        *w.sum = w.sum->to(w.own.dtype());
      } else {
        Tensor own = w.own;
        own.copy_(*w.sum);
        *w.sum = own;
      }
    }
  }

  /// Call at the beginning if there are observers. Without it, the functions below do nothing.
  void begin(Span<const Tensor> outputs) {
    static std::atomic<std::uint32_t> last{0};
    id_ = ++last;
    std::vector<Node*> found;
    const auto visit = [&](Node* n) {
      if (!n) return;
      if (n->leaf()) {
        if (n->detached) return;
        if (thread_state.observed) hooks_of(*n);
        if (n->hooks) ++pending(*n).edges;
      } else if (n->counted_by != id_) {
        n->counted_by = id_;
        found.push_back(n);
      }
    };
    for (const Tensor& y : outputs)
      if (y.impl()) visit(y.impl()->node);
    while (!found.empty()) {
      Node* const n = found.back();
      found.pop_back();
      for (int i = 0; i < n->input_count; ++i) visit(n->edges[i].node);
    }
    for (const Tensor& y : outputs)  // a leaf that is an output gets its seed before the traversal: it has no edge
      if (y.impl() && y.impl()->node) count_down(y.impl()->node);
  }

  /// A gradient was added to n.
  void gave(Node& n) {
    if (id_ && n.hooks && n.hooks->pending) n.hooks->pending->given = true;
  }

  /// Whether a leaf got no gradient yet, and will get several.
  bool waits(const Node& leaf) const {
    const PendingLeaf* const w = id_ && leaf.hooks ? leaf.hooks->pending : nullptr;
    return w && !w->given && !w->later && w->edges > 1 && !leaf.outputs[0].grad.defined();
  }
  /// Sets what to call before the next gradient is added to a leaf that waits.
  static void postpone(Node& leaf, std::function<void()> add) { leaf.hooks->pending->later = std::move(add); }

  /// n's adjoint is about to run: adds what was postponed for its leaves.
  void before(Node& n) {
    if (id_) add_postponed_of(n);
  }

  /// n's adjoint has ended; its edges still exist.
  void passed(Node& n) {
    if (!id_) return;
    for (int i = 0; i < n.input_count; ++i) count_down(n.edges[i].node);
  }

  /// Notifies for the leaves that are now complete.
  void call() {
    for (std::size_t i = 0; i < complete_.size(); ++i) call_once(*complete_[i]);
    complete_.clear();
  }

  /// At the end: rounds, and notifies for leaves that were not counted down, because a node on the path got no
  /// gradient.
  void rest() {
    for (PendingLeaf& w : leaves_) {
      add_postponed(w);
      call_once(w);
    }
    round();
    while (!earlier_.empty()) add_earlier(earlier_.size() - 1);
  }

 private:
  struct DropNode {
    Node* node;
    ~DropNode() { drop_node(node); }
  };
  struct Earlier {
    Node* leaf;
    Tensor gradient;
  };

  static std::uint32_t next_sums() {
    static std::atomic<std::uint32_t> last{0};
    return ++last;
  }

  [[gnu::noinline]] void set_aside(Node& leaf) {
    if (Tensor& sum = leaf.outputs[0].grad; sum.defined()) {
      earlier_.push_back({&leaf, sum});
      hold(leaf.refs);
      sum = Tensor();
    }
    leaf.counted_by = sums_;
  }

  // Adds the sum of this backward() to earlier gradient i, into its buffer.
  [[gnu::noinline]] void add_earlier(std::size_t i) {
    Earlier e = std::move(earlier_[i]);
    earlier_.erase(earlier_.begin() + static_cast<std::ptrdiff_t>(i));
    const DropNode drop{e.leaf};
    if (e.leaf->detached) return;
    Tensor& sum = e.leaf->outputs[0].grad;
    Tensor mine = std::exchange(sum, std::move(e.gradient));
    if (mine.defined()) accumulate(*e.leaf, sum, std::move(mine));
  }
  void add_earlier_of(const Node& leaf) {
    for (std::size_t i = earlier_.size(); i-- > 0;)
      if (earlier_[i].leaf == &leaf) add_earlier(i);
  }

  [[gnu::noinline]] void keep_wide(Node& n, Tensor& sum) {
    Tensor wide = sum.to(acc_dtype(sum.dtype()));
    wide_.push_back({&n, &sum, sum});
    hold(n.refs);
    sum = std::move(wide);
  }

  static void add_postponed(PendingLeaf& w) {
    if (const auto add = std::exchange(w.later, nullptr)) add();
  }
  // Not inlined: it is rare, and one() is short.
  [[gnu::noinline]] static void add_postponed_of(Node& n) {
    for (int i = 0; i < n.input_count; ++i)
      if (Node* const to = n.edges[i].node; to && to->leaf() && to->hooks && to->hooks->pending)
        add_postponed(*to->hooks->pending);
  }

  PendingLeaf& pending(Node& leaf) {
    if (leaf.hooks->pending && leaf.hooks->pending->run == id_) return *leaf.hooks->pending;
    PendingLeaf& w = leaves_.emplace_back();
    w.leaf = &leaf;
    w.run = id_;
    w.outer = std::exchange(leaf.hooks->pending, &w);
    hold(leaf.refs);
    if (leaf.hooks->on_gradient.any()) {
      w.aside = true;
      w.before = std::exchange(leaf.outputs[0].grad, Tensor());
    }
    return w;
  }

  void count_down(Node* n) {
    if (!n || !n->leaf() || !n->hooks || !n->hooks->pending) return;
    if (--n->hooks->pending->edges == 0) complete_.push_back(n->hooks->pending);
  }

  void call_once(PendingLeaf& w) {
    if (!w.given || w.called) return;
    w.called = true;
    round(w.leaf);
    if (w.aside) settle(w);
    outermost_.add_earlier_of(*w.leaf);
    notify_accumulated(*w.leaf);
  }

  // The hooks get only this pass's gradient; their result is added to the earlier gradient.
  static void settle(PendingLeaf& w) {
    Tensor& sum = w.leaf->outputs[0].grad;
    Tensor mine = std::exchange(sum, std::move(w.before));
    w.aside = false;
    if (w.leaf->detached) return;
    call_grad_hooks(*w.leaf, 0, mine);
    PendingLeaf* total = w.outer;  // inside another backward(), its part of the gradient is set aside for its hooks
    while (total && total->outer && total->outer->aside) total = total->outer;
    accumulate(*w.leaf, total && total->aside ? total->before : sum, std::move(mine));
  }

  // After an exception, or if no gradient came.
  static void put_back(PendingLeaf& w) noexcept {
    Tensor& sum = w.leaf->outputs[0].grad;
    Tensor part = std::exchange(sum, std::move(w.before));
    if (part.defined() && !w.leaf->detached) try {
        accumulate(*w.leaf, sum, std::move(part));
      } catch (...) {  // out of memory: the earlier gradient remains
      }
  }

  struct WideSum {
    Node* leaf;
    Tensor* sum;
    Tensor own;  // the narrow sum before
  };
  LeafGradients& outermost_;
  const std::uint32_t sums_ = next_sums();  // identifies the sums of the outermost backward()
  std::vector<Earlier> earlier_;            // of leaves whose sum is not complete
  std::vector<WideSum> wide_;
  std::uint32_t id_ = 0;           // 0: no leaf is observed
  std::list<PendingLeaf> leaves_;  // takes no memory while it is empty
  std::vector<PendingLeaf*> complete_;
};

}  // namespace fit::detail
