#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "fit/graph/graph.hpp"
#include "fit/tensor/tensor.hpp"

/// Observers of a run: operations, backward passes, layers and attention notify the observers of their thread.
///
///     struct OpCounter : Observer {
///       void op_recorded(const OpEvent& e) override { ++count[e.op]; }
///       std::map<std::string, int> count;
///     };
///     OpCounter counter;
///     {
///       const Observe watching(counter);
///       model.loss(x, y).backward();
///     }
namespace fit {

namespace nn {
class Layer;
}
class Observer;

/// A call of a layer, from layer_entered() to layer_left().
struct LayerCall {
  const nn::Layer& layer;
  const LayerCall* outer = nullptr;  ///< the observed call around this one on the same thread, or null
  /// The arguments that are tensors. An observer may replace them: forward() then gets the replacements.
  std::vector<Tensor> inputs;
  /// The result of the call: the Tensor, its member `output`, or the first tensor of a pair or tuple. An observer may
  /// replace it; the caller then gets the replacement. Undefined before the end, and for other types.
  Tensor output;
  bool failed = false;  ///< in layer_left(): the call ended with an exception
};

/// The innermost observed layer call of this thread; null if there is none.
const LayerCall* innermost_call();

/// The result of an operation.
struct OpEvent {
  const char* op;                      ///< the name in errors: "matmul"
  const detail::Inputs& inputs;        ///< inputs[0] … inputs[inputs.size() - 1]; optional inputs may be undefined
  const Tensor* outputs;               ///< outputs[0] … outputs[output_count - 1]
  int output_count;                    ///< 1 for most operations
  bool in_backward;                    ///< computed by the adjoint of a node
  Span<const OpAttribute> attributes;  ///< what the operation takes beside its inputs, such as "axis"
};

/// A node of the graph during a backward pass.
class NodeEvent {
 public:
  explicit NodeEvent(const detail::Node& node) : node_(node) {}
  /// The operation that made the node.
  const char* op() const;
  int inputs() const;
  int outputs() const;
  /// The gradient of an output; undefined if the output got none, or if the adjoint has released it.
  Tensor gradient(int output) const;
  /// The sum of the gradients that an input has got so far; undefined if there is none.
  Tensor input_gradient(int input) const;
  bool failed = false;  ///< in node_left(): the adjoint ended with an exception
  /// For the library.
  const detail::Node& node() const { return node_; }

 private:
  const detail::Node& node_;
};

/// A call of attention.
struct AttentionInfo {
  std::int64_t B, H, Sq, Sk;  ///< Sk includes the keys of a cache
  Tensor mask;                ///< boolean (B|1, H|1, 1|Sq, Sk), true = attend; undefined without one
  bool causal;                ///< see AttentionTerms
  std::int64_t window;        ///< see AttentionTerms; 0: all keys
  const LayerCall* call;      ///< the layer that computes the attention, or null

  /// The mask of one element of the batch, [H|1, 1|Sq, Sk]; undefined without one.
  Tensor mask_of(std::int64_t element) const;
};

/// The result of a call of attention. The weights are computed on request.
class AttentionEvent : public AttentionInfo {
 public:
  /// The weights of the batch, [B, H, Sq, Sk]: after softmax, before dropout, without a graph; float32 for bfloat16.
  Tensor weights() const;
  /// The weights of one element of the batch, [H, Sq, Sk]: the same bits.
  Tensor weights(std::int64_t element) const;

  using Weights = std::function<Tensor(std::int64_t first, std::int64_t count)>;
  AttentionEvent(AttentionInfo info, Weights weights) : AttentionInfo(std::move(info)), weights_(std::move(weights)) {}

 private:
  Weights weights_;
};

/// Receives events. Each function is one event; its default does nothing. Events come on the thread where they happen:
/// within parallel_for(), on several threads at once. An exception of an event comes out of the operation. While an
/// observer handles an event, it gets no events for its own computations; other observers do.
///
/// - Observe attaches an observer to a thread: it gets all events except gradient_computed().
/// - nn::attach() attaches an observer to a layer: it gets the calls of this layer on any thread, and the attention
///   that the layer computes itself. nn::register_forward_hook() does this with a function.
/// - register_hook() and register_post_accumulate_grad_hook() attach a function to a tensor.
///
/// The layer's observers come first, in the order of attachment; then the observers of the thread, the newest first.
/// Each "entered" event has a "left" event. Without observers, an operation only reads one pointer.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer();

  /// An operation with a floating result has ended, recorded in the graph or not. An operation that consists of others
  /// comes after them.
  virtual void op_recorded(const OpEvent&) {}
  /// An operation whose result is integers or conditions, and so in no graph, has ended: arithmetic, comparisons, tests
  /// and logic, and what moves elements. Those that choose, such as argmax(), and make numbers do not tell.
  virtual void op_unrecorded(const OpEvent&) {}
  /// The count of floating-point operations of matrix products or attention: 2 m n k for a matrix product.
  virtual void flops_counted(std::int64_t) {}

  /// Before and after the adjoint of a node in backward() or grad().
  virtual void node_entered(const NodeEvent&) {}
  virtual void node_left(const NodeEvent&) {}
  /// The gradient of a leaf is complete in a backward(): leaf.grad() contains it.
  virtual void gradient_accumulated(const Tensor&) {}
  /// The gradient, in this pass, of the tensor to which the observer is attached. The observer may replace it.
  virtual void gradient_computed(Tensor&) {}

  /// Before and after a call of a layer. If a layer calls itself, only the outer call counts.
  virtual void layer_entered(LayerCall&) {}
  virtual void layer_left(LayerCall&) {}

  /// A call of attention has ended.
  virtual void attention_computed(const AttentionEvent&) {}

  /// Whether the observer edits this call of attention. If so, attention is computed by operations, so that gradients
  /// flow through the edits. edit_scores(), edit_weights() and edit_output() are then called in this order. Each may
  /// assign another tensor of the same shape and type; a change in place throws Error. This function is called several
  /// times and must return the same each time.
  virtual bool edits_attention(const AttentionInfo&) const { return false; }
  /// Scores [B, H, Sq, Sk], with scale and bias. Masked pairs stay masked; their scores here are arbitrary.
  virtual void edit_scores(const AttentionInfo&, Tensor&) {}
  /// Weights [B, H, Sq, Sk] after softmax, before dropout. Masked pairs are set to 0 again.
  virtual void edit_weights(const AttentionInfo&, Tensor&) {}
  /// The output of each head, [B, H, Sq, Dv].
  virtual void edit_output(const AttentionInfo&, Tensor&) {}
};

namespace detail {

class ObserverList;

/// A link of the thread's chain (ThreadState::observed), newest first: an observer, a layer call or an adjoint.
struct ObserverLink {
  struct Told {};
  explicit ObserverLink(Observer* watching) : observer(watching) { link(); }
  /// Mutes the observer while it handles an event.
  ObserverLink(Observer* watching, Told) : observer(watching), muted(true) { link(); }
  ObserverLink(LayerCall* of, ObserverList* of_layer) : call(of), attached(of_layer) { link(); }
  ObserverLink() : adjoint(true) { link(); }
  /// Removes itself from any position in the chain.
  ~ObserverLink();
  ObserverLink(const ObserverLink&) = delete;
  ObserverLink& operator=(const ObserverLink&) = delete;

  Observer* observer = nullptr;      // null for a call and an adjoint
  bool muted = false;                // the observer handles an event
  LayerCall* call = nullptr;         // a call of a layer
  ObserverList* attached = nullptr;  // observers of that layer, or null
  bool adjoint = false;              // the adjoint of a node
  ObserverLink* outer = nullptr;

 private:
  void link() { outer = std::exchange(thread_state.observed, this); }
};

}  // namespace detail

/// A guard: while it lives, the observer watches this thread and the tasks that this thread gives to parallel_for().
class Observe {
 public:
  [[nodiscard]] explicit Observe(Observer& observer) : link_(&observer) {}

 private:
  detail::ObserverLink link_;
};

/// Attaches an observer to a layer or a tensor; detaches it when destroyed. The layer or tensor may be destroyed first.
class Attachment {
 public:
  Attachment() noexcept = default;
  Attachment(Attachment&& o) noexcept : list_(std::exchange(o.list_, nullptr)), id_(o.id_) {}
  Attachment& operator=(Attachment&& o) noexcept {
    std::swap(list_, o.list_);
    std::swap(id_, o.id_);
    return *this;
  }
  ~Attachment() { remove(); }
  /// Detaches the observer now. An observer may do this with itself and with others during an event.
  void remove() noexcept;
  /// Keeps the observer attached as long as the layer or the graph lives. An observer of a tensor must then not hold
  /// this tensor: it would never be freed.
  void keep() noexcept;

 private:
  friend class detail::ObserverList;
  Attachment(detail::ObserverList* list, std::uint64_t id) noexcept : list_(list), id_(id) {}
  detail::ObserverList* list_ = nullptr;
  std::uint64_t id_ = 0;
};

namespace detail {

/// The observers of one object; they move with it. The list is created with the first observer.
class Attached {
 public:
  Attached() noexcept = default;
  Attached(Attached&& o) noexcept : list_(o.list_.exchange(nullptr)) {}
  Attached& operator=(Attached&& o) noexcept {
    if (this != &o) replace(o.list_.exchange(nullptr));
    return *this;
  }
  ~Attached() { replace(nullptr); }
  bool any() const noexcept {
    const ObserverList* const all = list_.load(std::memory_order_acquire);
    return all && not_empty(*all);
  }
  /// Null if no observer was ever attached.
  ObserverList* list() const noexcept { return list_.load(std::memory_order_acquire); }
  /// total: a common counter for the observers of several objects, or null.
  Attachment add(std::shared_ptr<Observer> observer, std::uint32_t part = 0,
                 std::atomic<std::int64_t>* total = nullptr);

 private:
  static bool not_empty(const ObserverList& list) noexcept;
  void replace(ObserverList* list) noexcept;
  std::atomic<ObserverList*> list_{nullptr};
};

}  // namespace detail
}  // namespace fit
