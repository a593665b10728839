#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "fit/int8.hpp"
#include "fit/observer.hpp"
#include "fit/state_dict.hpp"
#include "fit/tensor.hpp"

namespace fit {
struct AttentionResult;
}

/// What every layer has in common. A layer says once, in FIT_FIELDS, what it is made of; parameters, dotted names,
/// train and eval, printing, saving, loading and cloning follow from that list.
namespace fit::nn {

class Fields;
class Layer;
class UnaryLayer;

namespace detail {

class Parametrized;
struct ParametrizedOf;
class ObservedCall;

/// What may be a member of a layer. It knows its address as long as it lives, which is how the members that a layer
/// holds but does not list are found.
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

}  // namespace detail

/// A tensor that is trained: a leaf that wants a gradient. Copying it shares it, as with every Tensor, so
/// `head.weight = embedding.weight` ties two layers. An undefined one stands for "none" (a layer without bias).
class Parameter : public Tensor, public detail::Member {
 public:
  Parameter() noexcept : Member(Kind::parameter) {}
  /// Shares the buffer of `value`, cut off from its graph. Throws Error if it is not floating.
  explicit Parameter(const Tensor& value);

  /// What a layer computes with: the tensor itself, or what is computed for it (see parametrize.hpp and quantize.hpp).
  Tensor value() const { return parametrized_ ? computed() : Tensor(*this); }
  /// The same for linear() and embedding(), which read int8 as it lies: an Int8Matrix if the parameter is quantised and
  /// nothing is added to it, else value().
  Weight operand() const;
  /// What is trained and saved: the tensor itself, or that from which value() is computed. It has the same shape, and
  /// is int8 once it is quantised.
  const Tensor& original() const;
  /// Whether value() is computed from others.
  bool parametrized() const { return parametrized_ != nullptr; }

  /// A frozen parameter gets no gradient, and so no optimiser changes it; whatever shares it is frozen too. What is
  /// int8 is frozen for good: unfreeze() throws Error.
  void freeze();
  void unfreeze();
  /// Whether it is frozen.
  bool frozen() const { return original().defined() && !original().requires_grad(); }

 private:
  friend class Fields;
  friend struct detail::ParametrizedOf;
  Tensor computed() const;

  std::shared_ptr<detail::Parametrized> parametrized_;
};

/// A tensor that is saved with the layer but not trained. An undefined one stands for "none".
class Buffer : public Tensor, public detail::Member {
 public:
  Buffer() noexcept : Member(Kind::buffer) {}
  /// Shares the buffer of `value`, cut off from its graph.
  explicit Buffer(const Tensor& value) : Tensor(value.defined() ? value.detach() : value), Member(Kind::buffer) {}
};

/// Names and tensors, in the order of the lists.
using fit::StateDict;

/// The base of all layers. A layer of one's own:
///
///     struct Net : nn::UnaryLayer {
///       Tensor forward(const Tensor& x) const override { return out(relu(hidden(x))); }
///       FIT_FIELDS(hidden, out)
///       nn::Linear hidden{2, 16}, out{16, 1};
///     };
///
/// A layer is moved or cloned: copying one throws Error. Its forward() is const and may run on several threads at once.
///
/// What asks a layer for its list (named_parameters(), state_dict(), train(), clone() …) throws Error if the object
/// holds a Parameter, Buffer or Layer that the list does not name, as a member or in a std::optional. It looks once at
/// each layer. What a std::vector or a pointer holds lies elsewhere and is not found: several layers are a ModuleList.
class Layer : public detail::Member {
 public:
  virtual ~Layer() = default;
  Layer(Layer&& o) noexcept : Member(o), training_(o.training_), attached_(std::move(o.attached_)) {}
  Layer& operator=(Layer&& o) noexcept {
    training_ = o.training_;
    attached_ = std::move(o.attached_);
    checked_.store(nullptr, std::memory_order_relaxed);
    return *this;
  }
  Layer& operator=(const Layer&) = delete;

  /// The one list: every Parameter, Buffer and Layer that is a member, with its name. FIT_FIELDS writes it; where it is
  /// known at run time only, see Fields.
  virtual void fields(Fields& f) = 0;
  /// The arguments as they are printed: "in_features=2, out_features=16, bias=true".
  virtual std::string describe() const { return {}; }
  /// The name of the class, without namespaces.
  std::string name() const;

  // ---- parameters
  /// Handles to all parameters here and below. One that several layers share is there once, under its first name.
  std::vector<Tensor> parameters() const;
  StateDict named_parameters() const;
  /// The same of the buffers.
  StateDict named_buffers() const;
  /// How many numbers the parameters have.
  std::int64_t num_parameters() const;
  /// The same without those that are frozen.
  std::int64_t num_trainable_parameters() const;
  /// Forgets the gradients.
  void zero_grad();
  /// Freezes or unfreezes all parameters here and below.
  void freeze();
  void unfreeze();
  /// Converts the floating parameters and buffers in place: whoever shares them (an optimiser) sees it. Gradients are
  /// forgotten. Throws Error unless dtype is floating.
  void to(DType dtype);

  // ---- children
  /// The layers that this one lists, by their names.
  std::vector<std::pair<std::string, Layer*>> children();
  std::vector<std::pair<std::string, const Layer*>> children() const;
  /// This layer, under "", and all below by their dotted names; one that is shared is there once, under its first name.
  /// named_layers<nn::Linear>(): those of that class.
  template <class L = Layer>
  std::vector<std::pair<std::string, L*>> named_layers() {
    return layers_of<L>(*this);
  }
  template <class L = Layer>
  std::vector<std::pair<std::string, const L*>> named_layers() const {
    return layers_of<const L>(*this);
  }
  /// The parameter, or the layer, of this dotted name. Throws Error if there is none.
  Parameter& parameter(const std::string& name);
  Layer& layer(const std::string& name);
  /// Puts another layer in the place of the one of this dotted name, which is held by a std::shared_ptr, as in
  /// Sequential and ModuleList. (One that is a member is assigned to: net.fc = nn::Linear(2, 3).) Throws Error if it is
  /// not, or holds another class.
  void replace(const std::string& name, const std::shared_ptr<Layer>& layer);
  /// Calls f on all layers below and then on this one.
  void apply(const std::function<void(Layer&)>& f);

  // ---- training or evaluation, which dropout follows; a new layer is in training. Reaches all layers below.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  /// Whether observers are attached, see forward_hooks.hpp.
  bool hooked() const { return attached_.any(); }

  // ---- saving
  /// All parameters and buffers under their dotted names ("multihead_attn.w_q.weight"), as live handles outside the
  /// graph; clone() those that must not follow later changes. A shared parameter is there under each of its names.
  StateDict state_dict() const;
  /// Copies the values in, converting types among floating ones. Throws one Error that lists every missing, unexpected
  /// and misfitting name, and then has changed nothing.
  void load_state_dict(const StateDict& state);

  /// A deep copy: what the class's copy constructor makes, in which every parameter and buffer listed here and below
  /// then has a tensor of its own, and what is held by std::shared_ptr is a clone, too. What shares a tensor or a layer
  /// here shares one there; values, frozen parameters and the training state are kept, gradients are not. It draws no
  /// random numbers. A Tensor that is a plain member is shared. fit::nn::clone(layer) keeps the static type.
  std::shared_ptr<Layer> clone() const;

  /// An indented list of this layer and those below, as PyTorch prints it.
  std::string str() const;

 protected:
  /// For classes of one's own.
  Layer() noexcept : Member(Kind::layer) {}
  /// For clone() alone: throws Error elsewhere.
  Layer(const Layer& o);
  /// What clone() starts from: this object copied. To be overridden where a member can't be copied (a std::unique_ptr,
  /// a std::mutex): it then gives a new layer of this class, made with the same arguments, and clone() the values.
  virtual std::shared_ptr<Layer> copy() const;

 private:
  friend class ListOf;
  friend class detail::ObservedCall;
  friend Attachment attach(const Layer& layer, std::shared_ptr<Observer> observer);
  std::vector<std::pair<std::string, Layer*>> all_layers() const;
  template <class L>
  static std::vector<std::pair<std::string, L*>> layers_of(const Layer& top) {
    std::vector<std::pair<std::string, L*>> found;
    for (auto& [name, layer] : top.all_layers())
      if (auto* const one = dynamic_cast<L*>(layer)) found.emplace_back(name, one);
    return found;
  }
  struct Copies;
  std::shared_ptr<Layer> clone(Copies& copies) const;
  void take(const Layer& from, Copies& copies);

  bool training_ = true;
  mutable std::atomic<const std::type_info*> checked_{nullptr};  // the class whose list was held against the object
  mutable fit::detail::Attached attached_;
};

/// Writes str().
std::ostream& operator<<(std::ostream& out, const Layer& layer);

/// layer.clone() as its own type.
template <class L>
std::shared_ptr<L> clone(const L& layer) {
  return std::dynamic_pointer_cast<L>(static_cast<const Layer&>(layer).clone());
}

namespace detail {
void tell_where(const Layer& layer, Error& e);

/// A call of a layer that is observed. One within another of the same layer is not told.
class ObservedCall {
 public:
  ObservedCall(const Layer& layer, const fit::detail::Inputs& inputs);
  ~ObservedCall();
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;
  /// The first argument, or what an observer has put in its place; null if there are none.
  const Tensor* first() const;
  /// Tells the observers the output (null if there is none), which they may replace.
  void left(Tensor* output);

 private:
  LayerCall call_;
  const Tensor* given_;
  std::optional<fit::detail::ObserverLink> link_;  // none within another call of the layer
  bool done_ = false;
};

Tensor* output_of(AttentionResult& result);

template <class F>
decltype(auto) call_with(const F& f, const Tensor* first) {
  if constexpr (std::is_invocable_v<const F&, const Tensor&>)
    return f(*first);
  else
    return f();
}

template <class F>
auto observed(const Layer& layer, const fit::detail::Inputs& inputs, const F& f)
    -> decltype(call_with(f, static_cast<const Tensor*>(nullptr))) {
  using Result = decltype(call_with(f, static_cast<const Tensor*>(nullptr)));
  ObservedCall call(layer, inputs);
  if constexpr (std::is_void_v<Result>) {
    call_with(f, call.first());
    call.left(nullptr);
  } else {
    decltype(auto) result = call_with(f, call.first());
    if constexpr (std::is_same_v<Result, Tensor>) {
      call.left(&result);
    } else if constexpr (std::is_same_v<Result, AttentionResult>) {
      call.left(output_of(result));
    } else if constexpr (std::is_base_of_v<Tensor, std::decay_t<Result>>) {
      Tensor shown = result;
      call.left(&shown);
    } else {
      call.left(nullptr);
    }
    return result;
  }
}
}  // namespace detail

/// Calls f for a layer with these arguments: observers see the call, and an Error that comes out of it says in which of
/// the layers below it was thrown. Where nothing is thrown and no observer watches, it costs nothing. UnaryLayer and
/// the layers of the library do so by themselves; others write
///
///     Tensor operator()(const Tensor& ids, const Tensor& mask) const {
///       return nn::within(*this, [&] { return out(attention(token(ids), mask)); });
///     }
///
/// An f that takes a Tensor gets the first argument, which an observer may have replaced.
template <class F>
decltype(auto) within(const Layer& layer, const fit::detail::Inputs& inputs, const F& f) {
  try {
    if (fit::detail::thread_state.observed || layer.hooked()) return detail::observed(layer, inputs, f);
    return detail::call_with(f, inputs.size() > 0 ? &inputs[0] : nullptr);
  } catch (Error& e) {
    detail::tell_where(layer, e);
    throw;
  }
}
/// The same without telling the arguments.
template <class F>
decltype(auto) within(const Layer& layer, const F& f) {
  static_assert(std::is_invocable_v<const F&>, "f takes no argument, unless within() is given arguments");
  return within(layer, fit::detail::Inputs(std::initializer_list<fit::detail::Inputs::Ref>()), f);
}

/// A layer from one tensor to one, which Sequential can take.
class UnaryLayer : public Layer {
 public:
  virtual Tensor forward(const Tensor& x) const = 0;
  Tensor operator()(const Tensor& x) const {
    return within(*this, {x}, [&](const Tensor& in) { return forward(in); });
  }
};

/// One entry of a layer's list: a name and one of the three.
struct Field {
  std::string name;
  Parameter* parameter = nullptr;
  Buffer* buffer = nullptr;
  Layer* layer = nullptr;

  /// The parameter's or buffer's tensor.
  Tensor& value() const { return parameter ? static_cast<Tensor&>(*parameter) : *buffer; }

  /// For a layer held by std::shared_ptr: puts another one in its place. False if its type does not fit.
  bool (*put)(void* held, const std::shared_ptr<Layer>& layer) = nullptr;
  void* held = nullptr;
};

/// Takes down what a layer lists. A member is a Parameter, a Buffer, a layer, or a std::optional, std::vector,
/// std::array, std::shared_ptr or std::unique_ptr of what may be a member: those that are empty are passed over, those
/// of several are named by their positions ("blocks.0"). An undefined parameter is listed like any other.
///
/// A list that is known at run time only is written by hand:
///
///     void fields(nn::Fields& f) override {
///       f.self(*this);                                            // always first
///       for (auto& [name, layer] : branches_) f(name, layer);
///     }
class Fields {
 public:
  /// Says whose members follow: the class is taken from the static type.
  template <class Self>
  void self(Self& layer);
  template <class T>
  void operator()(const std::string& name, T& member) {
    spans_.push_back({name, reinterpret_cast<const char*>(&member), sizeof member});
    add(name, member);
  }
  /// What FIT_FIELDS calls: self(), and each member by its name; the names stand between commas.
  template <class Self, class... Members>
  void of(Self& layer, const char* names, const std::tuple<Members&...>& members) {
    self(layer);
    std::apply([&](auto&... member) { ((*this)(next(names), member), ...); }, members);
  }
  const std::vector<Field>& list() const { return list_; }

 private:
  friend class ListOf;
  friend class Layer;
  /// Where a member lies that is listed under this name, or a layer as a whole.
  struct Span {
    std::string name;
    const char* begin;
    std::size_t size;
    bool holds(const char* p) const { return begin <= p && p < begin + size; }
  };

  static std::string next(const char*& names);

  void add_parameter(const std::string& name, Parameter& p);
  template <class T>
  void add(const std::string& name, T& member);
  template <class T>
  void add(const std::string& name, std::optional<T>& member) {
    if (member) add(name, *member);
  }
  template <class T>
  void add(const std::string& name, std::unique_ptr<T>& member) {
    if (member) add(name, *member);
  }
  template <class T>
  void add(const std::string& name, std::shared_ptr<T>& member);
  template <class T>
  void add(const std::string& name, std::vector<T>& members) {
    std::size_t i = 0;
    for (T& member : members) add(name + '.' + std::to_string(i++), member);
  }
  template <class T, std::size_t n>
  void add(const std::string& name, std::array<T, n>& members) {
    std::size_t i = 0;
    for (T& member : members) add(name + '.' + std::to_string(i++), member);
  }

  std::vector<Field> list_;
  std::vector<Span> spans_;
  const std::type_info* type_ = nullptr;
  Span self_{};
  std::shared_ptr<Layer> (*copy_)(const Layer&) = nullptr;  // null if the class can't be copied
};

template <class Self>
void Fields::self(Self& layer) {
  static_assert(std::is_base_of_v<Layer, Self>, "this is for what derives from fit::nn::Layer");
  type_ = &typeid(Self);
  self_ = {{}, reinterpret_cast<const char*>(&layer), sizeof layer};
  if constexpr (std::is_copy_constructible_v<Self> && !std::is_abstract_v<Self>)
    copy_ = [](const Layer& l) -> std::shared_ptr<Layer> {
      return std::make_shared<Self>(static_cast<const Self&>(l));
    };
  else
    copy_ = nullptr;
}

template <class T>
void Fields::add(const std::string& name, T& member) {
  static_assert(std::is_base_of_v<Parameter, T> || std::is_base_of_v<Buffer, T> || std::is_base_of_v<Layer, T>,
                "a layer lists Parameters, Buffers (for a Tensor that is saved), layers, and std::optional, vector, "
                "array, shared_ptr and unique_ptr of them");
  if constexpr (std::is_base_of_v<Parameter, T>) return add_parameter(name, member);
  Field field{name};
  if constexpr (std::is_base_of_v<Buffer, T>)
    field.buffer = &member;
  else if constexpr (std::is_base_of_v<Layer, T>)
    field.layer = &member;
  list_.push_back(std::move(field));
}

template <class T>
void Fields::add(const std::string& name, std::shared_ptr<T>& member) {
  static_assert(std::is_base_of_v<Layer, T>, "of what is held by std::shared_ptr, a layer lists layers");
  if (!member) return;
  add(name, *member);
  list_.back().held = &member;
  list_.back().put = [](void* held, const std::shared_ptr<Layer>& layer) {
    auto fitting = std::dynamic_pointer_cast<T>(layer);
    if (!fitting) return false;
    *static_cast<std::shared_ptr<T>*>(held) = std::move(fitting);
    return true;
  };
}

/// The list of a layer's members, once, in the class: FIT_FIELDS(hidden, out). FIT_FIELDS() for a layer without any.
/// Those of a base class are named, too.
#define FIT_FIELDS(...) \
  void fields(::fit::nn::Fields& fields_of_) override { fields_of_.of(*this, #__VA_ARGS__, ::std::tie(__VA_ARGS__)); }

}  // namespace fit::nn
