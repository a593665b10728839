#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "fit/base/memory.hpp"
#include "fit/detail/scoped.hpp"
#include "fit/detail/thread_state.hpp"
#include "fit/tensor/tensor.hpp"

/// The graph of operations, and how to add an operation: one function with the check, the forward and the adjoint.
///
///     Tensor square(const Tensor& x) {
///       Tensor y = …;                                                      // plain computation
///       return record("square", {x}, std::move(y), keep::inputs,
///                     [](Backward& b) { b.give(0, 2 * b.x(0) * b.dy()); });  // dx = 2 x dy
///     }
///
/// The adjoint calls operations, so it is differentiable itself: second derivatives need no further code.
namespace fit {

class Backward;

/// Whether this thread records operations.
bool grad_enabled();

namespace detail {
template <class T>
using IsTensor = std::enable_if_t<std::is_base_of_v<Tensor, T>>;
}  // namespace detail

/// A guard: while it lives, this thread records nothing.
///
///     { NoGrad no_grad;  w.sub_(0.1 * w.grad()); }
class NoGrad : public detail::Scoped<bool> {
 public:
  [[nodiscard]] NoGrad() : Scoped(detail::thread_state.recording, false) {}
};

/// A guard: switches recording on again within a NoGrad.
class EnableGrad : public detail::Scoped<bool> {
 public:
  [[nodiscard]] EnableGrad() : Scoped(detail::thread_state.recording, true) {}
};

/// d(sum of outputs * grad_outputs) / d(each input). It changes no tensor's grad(). An input may be any tensor from
/// which the outputs were computed. grad_outputs has one tensor for each output; it may be undefined for outputs with
/// one element. Throws Error if the outputs don't depend on an input, unless allow_unused is set.
///
///     Tensor dx = grad(sum(x * x), x);
///     std::vector<Tensor> d = grad(loss, {w, b}, create_graph);
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs, GraphFlags flags = {});
inline std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                                GraphFlags flags = {}) {
  return grad(outputs, inputs, {}, flags);
}
// Templates, so that braces, {x}, always mean a list.
template <class Y, class = detail::IsTensor<Y>>
std::vector<Tensor> grad(const Y& output, const std::vector<Tensor>& inputs, GraphFlags flags = {}) {
  return grad(std::vector<Tensor>{output}, inputs, {}, flags);
}
template <class Y, class X, class = detail::IsTensor<Y>, class = detail::IsTensor<X>>
Tensor grad(const Y& output, const X& input, GraphFlags flags = {}) {
  return grad(std::vector<Tensor>{output}, std::vector<Tensor>{input}, {}, flags)[0];
}
/// With grad_output, of the output's shape: a vector-Jacobian product.
template <class Y, class = detail::IsTensor<Y>>
std::vector<Tensor> grad(const Y& output, const std::vector<Tensor>& inputs, const Tensor& grad_output,
                         GraphFlags flags = {}) {
  return grad(std::vector<Tensor>{output}, inputs, {grad_output}, flags);
}
template <class Y, class X, class = detail::IsTensor<Y>, class = detail::IsTensor<X>>
Tensor grad(const Y& output, const X& input, const Tensor& grad_output, GraphFlags flags = {}) {
  return grad(std::vector<Tensor>{output}, std::vector<Tensor>{input}, {grad_output}, flags)[0];
}

namespace detail {
[[noreturn]] void fail_extras();
}

/// The tensors that a node keeps for its adjoint. (Its closure holds plain values.)
struct Keep {
  static constexpr int max_extras = 6;
  std::uint32_t inputs = 0;  // bit i: input i
  bool outputs = false;
  int extra_count = 0;
  const Tensor* extras[max_extras] = {};

  friend Keep operator|(Keep a, const Keep& b) {
    a.inputs |= b.inputs;
    a.outputs |= b.outputs;
    if (a.extra_count + b.extra_count > max_extras) detail::fail_extras();
    for (int i = 0; i < b.extra_count; ++i) a.extras[a.extra_count++] = b.extras[i];
    return a;
  }
};

namespace keep {
/// No tensors.
inline const Keep nothing{};
inline const Keep inputs{~0u};      ///< all inputs: b.x(i)
inline const Keep output{0, true};  ///< all outputs: b.y(i)
/// Some inputs: keep::input(0, 2).
template <class... I>
Keep input(I... i) {
  return Keep{((1u << i) | ... | 0u)};
}
/// Intermediate values, constants for every derivative: b.saved(i). An undefined value is not kept, but counts in i.
template <class... T>
Keep saved(const T&... t) {
  static_assert(sizeof...(T) <= Keep::max_extras);
  return Keep{0, false, static_cast<int>(sizeof...(T)), {&t...}};
}
}  // namespace keep

/// What an operation takes beside its inputs, by name: {"axis", 1}. It is valid during the call of record() only.
class OpAttribute {
 public:
  enum class Kind : std::uint8_t { integer, number, integers, tensor };
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  OpAttribute(const char* name, T value)
      : name_(name),
        kind_(Kind::integer),
        integer_(static_cast<std::int64_t>(value)),
        number_(static_cast<double>(value)) {}
  OpAttribute(const char* name, double value) : name_(name), kind_(Kind::number), number_(value) {}
  OpAttribute(const char* name, Span<const std::int64_t> values)
      : name_(name), kind_(Kind::integers), integer_(values.size()), integers_(values.data()) {}
  OpAttribute(const char* name, const Shape& values)
      : OpAttribute(name, Span<const std::int64_t>(values.begin(), values.rank())) {}
  OpAttribute(const char* name, const Tensor& value) : name_(name), kind_(Kind::tensor), tensor_(&value) {}

  /// What operations and ONNX call it: "axis".
  const char* name() const { return name_; }
  /// Which of the functions below gives the value.
  Kind kind() const { return kind_; }
  /// The value of Kind::integer.
  std::int64_t integer() const { return integer_; }
  /// The value of Kind::number or Kind::integer.
  double number() const { return number_; }
  /// The values of Kind::integers: a shape, axes.
  Span<const std::int64_t> integers() const { return {integers_, integer_}; }
  /// The value of Kind::tensor: indices, a mask.
  const Tensor& tensor() const { return *tensor_; }

 private:
  const char* name_;
  Kind kind_;
  std::int64_t integer_ = 0;  // or the count of integers_
  double number_ = 0;
  const std::int64_t* integers_ = nullptr;
  const Tensor* tensor_ = nullptr;
};

namespace detail {

/// The name of an operation, alone or with attributes: "exp", {"softmax", {{"axis", axis}}}.
struct OpName {
  OpName(const char* op) : name(op) {}
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Winit-list-lifetime"  // the object and the list live for one call only
#endif
  OpName(const char* op, std::initializer_list<OpAttribute> list)
      : name(op), attributes(list.begin()), count(static_cast<int>(list.size())) {}
#pragma GCC diagnostic pop
  const char* name;
  const OpAttribute* attributes = nullptr;
  int count = 0;
};

/// The inputs of an operation, without copying handles: {x, y}, a vector, or both, one after the other.
class Inputs {
 public:
  struct Ref {
    Ref(const Tensor& t) : tensor(&t) {}
    const Tensor* tensor;
  };
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Winit-list-lifetime"  // the object and the list live for one call only
#endif
  Inputs(std::initializer_list<Ref> list) : refs_(list.begin()), count_(static_cast<int>(list.size())), size_(count_) {}
#pragma GCC diagnostic pop
  Inputs(const std::vector<Tensor>& list) : tensors_(list.data()), size_(static_cast<int>(list.size())) {}
  Inputs(std::initializer_list<Ref> list, const std::vector<Tensor>& more) : Inputs(list) {
    tensors_ = more.data();
    size_ += static_cast<int>(more.size());
  }
  int size() const { return size_; }
  const Tensor& operator[](int i) const { return i < count_ ? *refs_[i].tensor : tensors_[i - count_]; }

 private:
  const Ref* refs_ = nullptr;
  int count_ = 0;  // of refs_; tensors_ follow
  const Tensor* tensors_ = nullptr;
  int size_;
};

/// Whether an input requires a gradient, was cut from one that does, or says something about a loss. A result of others
/// says nothing either.
inline bool any_connected(const Inputs& in) {
  for (int i = 0; i < in.size(); ++i)
    if (const TensorImpl* const t = in[i].impl(); t && (t->node || t->cut_at || t->loss_terms)) return true;
  return false;
}

inline bool wants_record(const Inputs& in) {
  if (!thread_state.recording) return false;
  for (int i = 0; i < in.size(); ++i)
    if (in[i].impl() && in[i].impl()->node) return true;
  return false;
}

/// For a result that is not recorded: stores where its connection to tensors that require gradients was cut.
void store_cut(const char* op, const TensorImpl& from, const Tensor& y);
inline void note_cut(const char* op, const Inputs& in, const Tensor& y) {
  for (int i = 0; i < in.size(); ++i)
    if (const TensorImpl* const t = in[i].impl(); t && (t->node || t->cut_at)) return store_cut(op, *t, y);
}

/// Passes on to y what the inputs say about a loss. y is one number, or a list of the inputs.
inline void note_loss_terms(const Inputs& in, const Tensor& y) {
  if (y.numel() > in.size()) return;
  for (int i = 0; i < in.size(); ++i)
    if (const TensorImpl* const t = in[i].impl(); t && t->loss_terms) add_loss_terms(*y.impl(), *t->loss_terms);
}

/// Notifies the observers of this thread.
void notify_op(const OpName& op, const Inputs& in, const Tensor* outputs, int count);
/// The same for a result of integers or conditions. Returns it.
inline Tensor unrecorded(const OpName& op, const Inputs& in, Tensor y) {
  if (thread_state.observed) notify_op(op, in, &y, 1);
  return y;
}

/// Creates the node, connects the outputs to it, and returns memory for a closure of `bytes`.
void* attach_node(const char* op, const Inputs& in, Tensor* outputs, int count, const Keep& keep,
                  void (*adjoint)(Backward&, const void*), std::size_t bytes);

template <class F>
void attach(const char* op, const Inputs& in, Tensor* outputs, int count, const Keep& keep, const F& adjoint) {
  static_assert(
      std::is_trivially_copyable_v<F> && std::is_trivially_destructible_v<F>,
      "an adjoint captures plain values only (numbers, Shape): tensors are kept with keep::, so that no cycle "
      "of references can form");
  static_assert(alignof(F) <= 16);
  void* closure = attach_node(
      op, in, outputs, count, keep, [](Backward& b, const void* f) { (*static_cast<const F*>(f))(b); }, sizeof(F));
  new (closure) F(adjoint);
}

}  // namespace detail

/// Connects `y`, newly computed from `inputs`, to the graph, if operations are recorded and an input requires a
/// gradient. Otherwise the graph keeps nothing. Inputs may be undefined. The adjoint is any callable on Backward&. `op`
/// is a name, or a name with attributes, which observers get: record({"softmax", {{"axis", axis}}}, …).
template <class F>
Tensor record(const detail::OpName& op, const detail::Inputs& inputs, Tensor y, const Keep& keep, const F& adjoint) {
  if (!is_floating(y.dtype())) return detail::unrecorded(op, inputs, std::move(y));
  if (detail::any_connected(inputs)) {
    if (detail::wants_record(inputs))
      detail::attach(op.name, inputs, &y, 1, keep, adjoint);
    else
      detail::note_cut(op.name, inputs, y);
    detail::note_loss_terms(inputs, y);
  }
  if (detail::thread_state.observed) detail::notify_op(op, inputs, &y, 1);
  return y;
}

/// Same for several outputs of one node. Outputs that are not floating are ignored.
template <class F>
void record(const detail::OpName& op, const detail::Inputs& inputs, std::vector<Tensor>& outputs, const Keep& keep,
            const F& adjoint) {
  if (detail::wants_record(inputs))
    detail::attach(op.name, inputs, outputs.data(), static_cast<int>(outputs.size()), keep, adjoint);
  else
    for (const Tensor& y : outputs)
      if (y.defined()) detail::note_cut(op.name, inputs, y);
  for (const Tensor& y : outputs)
    if (y.defined()) detail::note_loss_terms(inputs, y);
  if (detail::thread_state.observed) detail::notify_op(op, inputs, outputs.data(), static_cast<int>(outputs.size()));
}

/// The argument of an adjoint: gradients of the outputs, kept tensors, and gradients of the inputs.
class Backward {
 public:
  /// Gradient of output i; zeros if the output got no gradient.
  Tensor dy(int i = 0);
  /// dy(i) at its last use: the node releases it, so that its buffer may be reused. Calling it again throws Error.
  Tensor take_dy(int i = 0);
  /// Whether the output got a gradient.
  bool has_dy(int i) const;
  /// The kept input i. Throws Error if it was changed in place since.
  Tensor x(int i);
  /// x(i), which the node releases unless the graph is retained. If the result is unique(), no other code reads it, so
  /// the gradient may overwrite it.
  Tensor take_x(int i);
  /// The kept output i, and value i of keep::saved(). Both throw as x() does.
  Tensor y(int i = 0);
  Tensor saved(int i);
  /// Whether value i of keep::saved() is defined.
  bool has_saved(int i) const;
  /// Whether input i requires a gradient. Checking saves work; give() drops gradients that are not required.
  bool wants(int i) const;
  /// Shape and type of an input that requires a gradient.
  const Shape& shape(int i) const;
  DType dtype(int i) const;
  /// The number of inputs.
  int inputs() const;
  /// Adds g to the gradient of input i. g may have a broadcast shape (it is summed) or another floating type. An
  /// undefined g means none: the outputs do not depend on input i. backward() throws Error if the adjoint forgets an
  /// input that requires a gradient.
  void give(int i, Tensor g);
  /// Whether input i is a leaf whose gradient is used when it is complete, such as by StepInBackward, and this node is
  /// the first of several to give to it. False if another input is a leaf.
  bool waits(int i) const;
  /// give(i, gradient()) for such an input, but called when the next node gives to it. For a gradient that takes more
  /// memory than the tensors that it is computed from, `read`. It must have the input's shape and type. backward()
  /// throws Error if they were changed in place before.
  void give_later(int i, const std::vector<Tensor>& read, std::function<Tensor()> gradient);
  /// Whether the gradients are recorded (create_graph). Then the adjoint must consist of operations.
  bool recording() const { return detail::thread_state.recording; }
  /// For kernels that write in place: the gradient of input i, and whether to add to it (otherwise it is
  /// uninitialised).
  struct Target {
    Tensor grad;
    bool add;
  };
  /// Throws Error while recording().
  Target target(int i);
  /// For ops without a derivative of this order: throws Error while recording().
  void once_only() const;

  explicit Backward(detail::Node& node) : node_(node) {}
  /// For the library: throws Error if an input of `wanted` (bit i: input i; from 63 on they share a bit) got nothing
  /// from give() and target().
  void expect_given(std::uint64_t wanted) const {
    if (wanted & ~given_) fail_forgotten(wanted & ~given_);
  }

 private:
  void note_given(int i) { given_ |= std::uint64_t{1} << (i < 63 ? i : 63); }
  void fail_forgotten(std::uint64_t forgotten) const;
  int slot_of_x(int i) const;
  Tensor restore(int slot, detail::Node* node, int output);
  detail::Node& node_;
  std::uint64_t taken_ = 0;  // bit i: take_dy(i) was called
  std::uint64_t given_ = 0;  // bit i: give(i) or target(i) was called; from 63 on they share a bit
};

}  // namespace fit
