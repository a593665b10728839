#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "fit/graph.hpp"
#include "fit/tensor.hpp"

/// Watching a run: operations, backward passes, layers and attention report to the observers of their thread.
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
  /// The arguments that the layer tells (nn::within()): x of a UnaryLayer; query, key and value of MultiHeadAttention.
  /// A UnaryLayer computes with the tensor that an observer puts into inputs[0]. Other layers ignore replacements.
  std::vector<Tensor> inputs;
  /// Undefined before the end, and where the layer returns neither a Tensor nor an AttentionResult (its output stands
  /// here). The caller gets the tensor that an observer puts here.
  Tensor output;
  bool failed = false;  ///< in layer_left(): an exception has ended the call
};

/// The call of a layer that this thread is in, among those observed; null if there is none.
const LayerCall* innermost_call();

/// The result of an operation.
struct OpEvent {
  const char* op;                ///< the name in errors: "matmul"
  const detail::Inputs& inputs;  ///< inputs[0] … inputs[inputs.size() - 1]; an optional one may be undefined
  const Tensor* outputs;         ///< outputs[0] … outputs[output_count - 1]
  int output_count;              ///< 1 for most operations
  bool in_backward;              ///< computed by the adjoint of a node
};

/// A node of the graph in a backward pass.
class NodeEvent {
 public:
  explicit NodeEvent(const detail::Node& node) : node_(node) {}
  /// The operation that made the node.
  const char* op() const;
  int inputs() const;
  int outputs() const;
  /// The gradient of an output; undefined where none came back, or where the adjoint has let go of it.
  Tensor gradient(int output) const;
  /// The sum of the gradients that an input has got so far; undefined where there is none.
  Tensor input_gradient(int input) const;
  bool failed = false;  ///< in node_left(): an exception has ended the adjoint
  /// For the library.
  const detail::Node& node() const { return node_; }

 private:
  const detail::Node& node_;
};

/// A call of attention.
struct AttentionInfo {
  std::int64_t B, H, Sq, Sk;  ///< Sk counts the keys of a cache, too
  Tensor mask;                ///< boolean (B|1, H|1, 1|Sq, Sk), true = attend; undefined without one
  bool causal;                ///< see AttentionMasks
  std::int64_t window;        ///< see AttentionMasks; 0: all keys
  const LayerCall* call;      ///< the layer that computes it, or null

  /// The mask of one element of the batch, [H|1, 1|Sq, Sk]; undefined without one.
  Tensor mask_of(std::int64_t element) const;
};

/// Attention that has been computed. Weights are computed when they are asked for.
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

/// Sees a run. Each function is an event, and does nothing unless it is overridden. Events are told on the thread where
/// they happen: within parallel_for() on several threads at once. An exception that an event throws comes out of the
/// operation. An observer is not told what it computes during its own events; other observers are.
///
/// - Observe attaches an observer to a thread: it sees all events but gradient_computed().
/// - nn::attach() attaches one to a layer: it sees the calls of this layer on any thread, and the attention that the
///   layer computes itself. nn::register_forward_hook() does so with a function.
/// - register_hook() and register_post_accumulate_grad_hook() attach a function to a tensor.
///
/// The layer's observers come first, in the order in which they were attached; then those of the thread, the newest
/// first. Each entered has its left. Without observers an operation reads one pointer.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer();

  /// An operation with a floating result has been computed, whether the graph records it or not. An operation that
  /// is made of others comes after them.
  virtual void op_recorded(const OpEvent&) {}
  /// Matrix products or attention are computed, of so many floating-point operations: 2 m n k for a product.
  virtual void flops_counted(std::int64_t) {}

  /// Before and after the adjoint of a node in backward() or grad().
  virtual void node_entered(const NodeEvent&) {}
  virtual void node_left(const NodeEvent&) {}
  /// The gradient of a leaf is complete in a backward(): leaf.grad() has it.
  virtual void gradient_accumulated(const Tensor&) {}
  /// The gradient of the tensor that it is attached to, of this pass. The tensor that an observer assigns takes its
  /// place.
  virtual void gradient_computed(Tensor&) {}

  /// Around a call of a layer. A call within another one of the same layer belongs to the outer one.
  virtual void layer_entered(LayerCall&) {}
  virtual void layer_left(LayerCall&) {}

  /// Attention has been computed.
  virtual void attention_computed(const AttentionEvent&) {}

  /// Whether the observer changes this call of attention. Then attention is computed by operations, so that gradients
  /// flow through the edits, and edit_scores(), edit_weights() and edit_output() are called in turn. Each may assign
  /// another tensor of the same shape and type; a change in place is an Error. Asked several times in a call: the
  /// answer must be the same.
  virtual bool edits_attention(const AttentionInfo&) const { return false; }
  /// Scores [B, H, Sq, Sk], scaled and with bias. Masked pairs stay masked, and have any score here.
  virtual void edit_scores(const AttentionInfo&, Tensor&) {}
  /// Weights [B, H, Sq, Sk] after softmax and before dropout. Masked pairs get the weight 0 again.
  virtual void edit_weights(const AttentionInfo&, Tensor&) {}
  /// The output of each head, [B, H, Sq, Dv].
  virtual void edit_output(const AttentionInfo&, Tensor&) {}
};

namespace detail {

class ObserverList;

/// A link of the thread's chain, newest first (ThreadState::observed): an observer, a layer's call or an adjoint.
struct ObserverLink {
  struct Told {};
  explicit ObserverLink(Observer* watching) : observer(watching) { link(); }
  /// While the observer is being told something.
  ObserverLink(Observer* watching, Told) : observer(watching), muted(true) { link(); }
  ObserverLink(LayerCall* of, ObserverList* of_layer) : call(of), attached(of_layer) { link(); }
  ObserverLink() : adjoint(true) { link(); }
  /// Takes itself out, wherever it is in the chain.
  ~ObserverLink();
  ObserverLink(const ObserverLink&) = delete;
  ObserverLink& operator=(const ObserverLink&) = delete;

  Observer* observer = nullptr;      // null for a call and an adjoint
  bool muted = false;                // the observer is being told something
  LayerCall* call = nullptr;         // a call of a layer
  ObserverList* attached = nullptr;  // observers of that layer, or null
  bool adjoint = false;              // the adjoint of a node
  ObserverLink* outer = nullptr;

 private:
  void link() { outer = std::exchange(thread_state.observed, this); }
};

}  // namespace detail

/// While one lives, the observer watches this thread, and the tasks that it gives to parallel_for().
class Observe {
 public:
  explicit Observe(Observer& observer) : link_(&observer) {}

 private:
  detail::ObserverLink link_;
};

/// Holds an observer at a layer or a tensor, and detaches it when destroyed. The layer or tensor may be gone by then.
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
  /// Detaches the observer now. An observer may do so with itself and with others during an event.
  void remove() noexcept;
  /// Leaves the observer attached for as long as the layer or the graph lives. One that is attached to a tensor must
  /// then not hold this tensor, which would never be freed.
  void keep() noexcept;

 private:
  friend class detail::ObserverList;
  Attachment(detail::ObserverList* list, std::uint64_t id) noexcept : list_(list), id_(id) {}
  detail::ObserverList* list_ = nullptr;
  std::uint64_t id_ = 0;
};

namespace detail {

/// The observers of one object, which moves with it. The list is made when the first one comes.
class Attached {
 public:
  Attached() noexcept = default;
  Attached(Attached&& o) noexcept : list_(o.list_.exchange(nullptr)) {}
  Attached& operator=(Attached&& o) noexcept {
    if (this != &o) replace(o.list_.exchange(nullptr));
    return *this;
  }
  ~Attached() { replace(nullptr); }
  /// Whether there are observers now.
  bool any() const noexcept {
    const ObserverList* const all = list_.load(std::memory_order_acquire);
    return all && not_empty(*all);
  }
  /// Null if there never was one.
  ObserverList* list() const noexcept { return list_.load(std::memory_order_acquire); }
  /// total: counts the observers of several objects together, or null.
  Attachment add(std::shared_ptr<Observer> observer, std::uint32_t part = 0,
                 std::atomic<std::int64_t>* total = nullptr);

 private:
  static bool not_empty(const ObserverList& list) noexcept;
  void replace(ObserverList* list) noexcept;
  std::atomic<ObserverList*> list_{nullptr};
};

}  // namespace detail
}  // namespace fit
