#pragma once
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fit/tensor.hpp"

/// What every layer has in common. A layer says once, in fields(), what it is made of; parameters, dotted names,
/// train and eval, printing, saving, loading and cloning follow from that list.
namespace fit::nn {

class Layer;

namespace detail {

/// What may be a member of a layer. It knows its address as long as it lives, which is how check_fields() finds the
/// members that a layer holds but does not list.
class Member {
 public:
  enum class Kind { parameter, buffer, layer };
  Kind kind() const { return kind_; }

 protected:
  explicit Member(Kind kind) noexcept;
  Member(const Member& o) noexcept : Member(o.kind_) {}
  Member& operator=(const Member&) noexcept { return *this; }
  ~Member();

 private:
  friend struct Members;
  Kind kind_;
  Member *previous_, *next_;
};

void check_fields(const Layer& layer, const void* begin, std::size_t bytes);

}  // namespace detail

/// A tensor that is trained: a leaf that wants a gradient. Copying it shares it, as with every Tensor, so
/// `head.weight = embedding.weight` ties two layers. An undefined one stands for "none" (a layer without bias).
class Parameter : public Tensor, public detail::Member {
 public:
  Parameter() noexcept : Member(Kind::parameter) {}
  /// Shares the buffer of `value`, cut off from its graph. Throws Error if it is not floating.
  explicit Parameter(const Tensor& value);

  /// A frozen parameter gets no gradient, and so no optimiser changes it; whatever shares it is frozen too.
  void freeze();
  void unfreeze();
  bool frozen() const { return defined() && !requires_grad(); }
};

/// A tensor that is saved with the layer but not trained. An undefined one stands for "none".
class Buffer : public Tensor, public detail::Member {
 public:
  Buffer() noexcept : Member(Kind::buffer) {}
  /// Shares the buffer of `value`, cut off from its graph.
  explicit Buffer(const Tensor& value) : Tensor(value.defined() ? value.detach() : value), Member(Kind::buffer) {}
};

/// One entry of a layer's list: a name and one of the three.
struct Field {
  std::string name;
  Parameter* parameter = nullptr;
  Buffer* buffer = nullptr;
  Layer* layer = nullptr;

  /// The parameter's or buffer's tensor.
  Tensor& value() const { return parameter ? static_cast<Tensor&>(*parameter) : *buffer; }
};

/// Takes down what a layer lists: f("weight", weight). An undefined parameter is listed like any other.
class Fields {
 public:
  void operator()(std::string name, Parameter& p) { list_.push_back({std::move(name), &p}); }
  void operator()(std::string name, Buffer& b) { list_.push_back({std::move(name), nullptr, &b}); }
  void operator()(std::string name, Layer& l) { list_.push_back({std::move(name), nullptr, nullptr, &l}); }
  const std::vector<Field>& list() const { return list_; }

 private:
  std::vector<Field> list_;
};

/// Names and tensors, in the order of the lists.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

/// The base of all layers. A layer of one's own:
///
///     struct Net : nn::UnaryLayer {
///       Tensor forward(const Tensor& x) const override { return out(relu(hidden(x))); }
///       void fields(nn::Fields& f) override { f("hidden", hidden); f("out", out); }
///       nn::Linear hidden{2, 16}, out{16, 1};
///     };
///
/// A layer is moved or cloned, not copied. Its forward() is const and may run on several threads at once.
class Layer : public detail::Member {
 public:
  virtual ~Layer() = default;
  Layer(Layer&&) noexcept = default;
  Layer& operator=(Layer&&) noexcept = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  /// The one list: every Parameter, Buffer and Layer that is a member, with its name. It must only list.
  virtual void fields(Fields& f) = 0;
  /// The arguments as they are printed: "in_features=2, out_features=16, bias=true".
  virtual std::string describe() const { return {}; }
  /// The name of the class, without namespaces.
  std::string name() const;

  // ---- parameters
  /// Handles to all parameters here and below. One that several layers share is there once, under its first name.
  std::vector<Tensor> parameters() const;
  StateDict named_parameters() const;
  StateDict named_buffers() const;
  /// How many numbers the parameters have.
  std::int64_t num_parameters(bool trainable_only = false) const;
  /// Forgets the gradients.
  void zero_grad();
  /// Freezes or unfreezes all parameters here and below.
  void freeze();
  void unfreeze();
  /// Converts the floating parameters and buffers in place: whoever shares them (an optimiser) sees it. Gradients are
  /// forgotten. Throws Error unless dtype is floating.
  void to(DType dtype);

  // ---- children
  std::vector<std::pair<std::string, Layer*>> children();
  std::vector<std::pair<std::string, const Layer*>> children() const;
  /// Calls f on all layers below and then on this one.
  void apply(const std::function<void(Layer&)>& f);

  // ---- training or evaluation, which dropout follows; a new layer is in training. Reaches all layers below.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  // ---- saving
  /// All parameters and buffers under their dotted names ("multihead_attn.w_q.weight"), as live handles outside the
  /// graph; clone() those that must not follow later changes. A shared parameter is there under each of its names.
  StateDict state_dict() const;
  /// Copies the values in, converting types among floating ones. Throws one Error that lists every missing, unexpected
  /// and misfitting name, and then has changed nothing.
  void load_state_dict(const StateDict& state);

  /// A deep copy: the same class, arguments, values, frozen parameters and training state; parameters that share a
  /// tensor here share one there. It draws no random numbers. fit::nn::clone(layer) keeps the static type.
  std::shared_ptr<Layer> clone() const;

  /// An indented list of this layer and those below, as PyTorch prints it.
  std::string str() const;

 protected:
  Layer() noexcept : Member(Kind::layer) {}
  /// A new layer of the same class, made with the same arguments: what clone() starts from.
  virtual std::shared_ptr<Layer> make() const;
  /// make() of another layer, for containers.
  template <class L>
  static std::shared_ptr<L> make_like(const L& layer) {
    return std::static_pointer_cast<L>(made_like(layer));
  }

 private:
  static std::shared_ptr<Layer> made_like(const Layer& layer);
  struct Copied;
  void take(const Layer& from, Copied& copied);

  bool training_ = true;
};

std::ostream& operator<<(std::ostream& out, const Layer& layer);

/// layer.clone() as its own type.
template <class L>
std::shared_ptr<L> clone(const L& layer) {
  return std::dynamic_pointer_cast<L>(static_cast<const Layer&>(layer).clone());
}

/// A layer from one tensor to one, which Sequential can take.
class UnaryLayer : public Layer {
 public:
  virtual Tensor forward(const Tensor& x) const = 0;
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

/// Throws Error if the object holds a Parameter, Buffer or Layer that fields() does not list, or lists a name twice.
/// (What it holds through a pointer or in a std::vector lies elsewhere and is not seen.) For the tests of a layer.
template <class L>
void check_fields(const L& layer) {
  detail::check_fields(layer, &layer, sizeof(L));
}

}  // namespace fit::nn
