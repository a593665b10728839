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

/// The base class of all layers. A layer lists its members once, in FIT_FIELDS. Parameters, dotted names, train() and
/// eval(), printing, saving, loading and cloning follow from that list.
namespace fit::nn {

class Fields;
class Layer;
class UnaryLayer;

namespace detail {

class Parametrized;
struct ParametrizedOf;
class ObservedCall;

/// The base of Parameter, Buffer and Layer. Each member registers its address while it lives. Layer uses the addresses
/// to find members that its list lacks.
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

/// A trainable tensor: a leaf that requires a gradient. A copy shares the data, as with every Tensor, so
/// `head.weight = embedding.weight` ties two layers. An undefined parameter means "none" (a layer without bias).
class Parameter : public Tensor, public detail::Member {
 public:
  Parameter() noexcept : Member(Kind::parameter) {}
  /// Shares the buffer of `value`, detached from its graph. Throws Error if `value` is not floating.
  explicit Parameter(const Tensor& value);

  /// The tensor that a layer computes with: this one, or a computed one (see parametrize.hpp and quantize.hpp).
  Tensor value() const { return parametrized_ ? computed() : Tensor(*this); }
  /// The same for linear() and embedding(), which can read int8 directly. It is an Int8Matrix if the parameter is
  /// quantised and has no parametrization, else value().
  Weight operand() const;
  /// The tensor that is trained and saved: this one, or the tensor from which value() is computed. The shape is the
  /// same. The type is int8 after quantisation.
  const Tensor& original() const;
  /// Whether value() is computed from other tensors.
  bool parametrized() const { return parametrized_ != nullptr; }

  /// A frozen parameter gets no gradient, so no optimiser changes it. Parameters that share its tensor are frozen, too.
  /// An int8 parameter stays frozen: unfreeze() throws Error.
  void freeze();
  void unfreeze();
  bool frozen() const { return original().defined() && !original().requires_grad(); }

 private:
  friend class Fields;
  friend struct detail::ParametrizedOf;
  Tensor computed() const;

  std::shared_ptr<detail::Parametrized> parametrized_;
};

/// A tensor that is saved with the layer but not trained. An undefined buffer means "none".
class Buffer : public Tensor, public detail::Member {
 public:
  Buffer() noexcept : Member(Kind::buffer) {}
  /// Shares the buffer of `value`, detached from its graph.
  explicit Buffer(const Tensor& value) : Tensor(value.defined() ? value.detach() : value), Member(Kind::buffer) {}
};

/// Names and tensors, in the order of the lists.
using fit::StateDict;

/// The base of all layers. A custom layer:
///
///     struct Net : nn::UnaryLayer {
///       Tensor forward(const Tensor& x) const override { return out(relu(hidden(x))); }
///       FIT_FIELDS(hidden, out)
///       nn::Linear hidden{2, 16}, out{16, 1};
///     };
///
/// A layer can be moved or cloned. Copying a layer throws Error. forward() is const and may run on several threads.
///
/// Functions that read the list (named_parameters(), state_dict(), train(), clone() …) throw Error if it is incomplete:
/// if a Parameter, Buffer or Layer that is a member, also in a std::optional, is not listed. The check runs once for
/// each layer. It does not find members inside a std::vector or behind a pointer: use ModuleList for several layers.
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

  /// Lists every member that is a Parameter, Buffer or Layer, with its name. FIT_FIELDS defines this function. See
  /// Fields for a list that is known only at run time.
  virtual void fields(Fields& f) = 0;
  /// The arguments for printing: "in_features=2, out_features=16, bias=true".
  virtual std::string describe() const { return {}; }
  /// The name of the class, without namespaces.
  std::string name() const;

  // ---- parameters
  /// All parameters of this layer and its sublayers, as handles. A shared one is listed once, under its first name.
  std::vector<Tensor> parameters() const;
  StateDict named_parameters() const;
  /// The same for the buffers.
  StateDict named_buffers() const;
  /// The number of elements of all parameters.
  std::int64_t num_parameters() const;
  /// The same without frozen parameters.
  std::int64_t num_trainable_parameters() const;
  /// Clears the gradients.
  void zero_grad();
  /// Freezes or unfreezes all parameters of this layer and its sublayers.
  void freeze();
  void unfreeze();
  /// Converts the floating parameters and buffers in place, also for an optimiser that shares them. Clears the
  /// gradients. Throws Error unless dtype is floating.
  void to(DType dtype);

  // ---- children
  /// The direct sublayers, by name.
  std::vector<std::pair<std::string, Layer*>> children();
  std::vector<std::pair<std::string, const Layer*>> children() const;
  /// This layer, under "", and all sublayers by their dotted names. A shared layer is listed once, under its first
  /// name. named_layers<nn::Linear>() lists only layers of that class.
  template <class L = Layer>
  std::vector<std::pair<std::string, L*>> named_layers() {
    return layers_of<L>(*this);
  }
  template <class L = Layer>
  std::vector<std::pair<std::string, const L*>> named_layers() const {
    return layers_of<const L>(*this);
  }
  /// The parameter, or the layer, with this dotted name. Throws Error if there is none.
  Parameter& parameter(const std::string& name);
  Layer& layer(const std::string& name);
  /// Replaces the layer with this dotted name. A std::shared_ptr must hold it, as in Sequential and ModuleList. Throws
  /// Error otherwise, or if the pointer is to another class. (Assign to a member: net.fc = nn::Linear(2, 3).)
  void replace(const std::string& name, const std::shared_ptr<Layer>& layer);
  /// Calls f on all sublayers and then on this layer.
  void apply(const std::function<void(Layer&)>& f);

  // ---- the mode of this layer and all sublayers: training (the default) or evaluation. Dropout reads it.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  /// Whether observers are attached, see forward_hooks.hpp.
  bool hooked() const { return attached_.any(); }

  // ---- saving
  /// All parameters and buffers under their dotted names ("multihead_attn.w_q.weight"), as live handles outside the
  /// graph. clone() a tensor to keep its present values. A shared parameter is listed under each of its names.
  StateDict state_dict() const;
  /// Copies the values, and converts between floating types. Throws one Error that lists every missing, unexpected and
  /// misfitting name, and then changes nothing.
  void load_state_dict(const StateDict& state);

  /// A deep copy. The copy constructor of the class makes the object. Then each listed parameter and buffer, also of
  /// sublayers, gets its own tensor, and a layer held by std::shared_ptr is cloned. Tensors and layers that are shared
  /// here are shared in the clone, too. Values, frozen parameters and the mode are kept; gradients are not. No random
  /// number is drawn. A Tensor that is a plain member stays shared. fit::nn::clone(layer) keeps the static type.
  std::shared_ptr<Layer> clone() const;

  /// An indented list of this layer and its sublayers, in PyTorch's format.
  std::string str() const;

 protected:
  /// For derived classes.
  Layer() noexcept : Member(Kind::layer) {}
  /// Only clone() may copy: throws Error elsewhere.
  Layer(const Layer& o);
  /// A copy of this object, which clone() starts from. Override it if a member can't be copied (a std::unique_ptr, a
  /// std::mutex): return a new layer of this class with the same arguments. clone() then copies the values.
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
  mutable std::atomic<const std::type_info*> checked_{nullptr};  // the class for which the list was checked
  mutable fit::detail::Attached attached_;
};

/// Writes str().
std::ostream& operator<<(std::ostream& out, const Layer& layer);

/// layer.clone() with the static type of `layer`.
template <class L>
std::shared_ptr<L> clone(const L& layer) {
  return std::dynamic_pointer_cast<L>(static_cast<const Layer&>(layer).clone());
}

namespace detail {
void add_layer_path(const Layer& layer, Error& e);

/// A layer's call under observation. Observers do not see a nested call of the same layer.
class ObservedCall {
 public:
  ObservedCall(const Layer& layer, const fit::detail::Inputs& inputs);
  ~ObservedCall();
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;
  /// The first argument, or an observer's replacement; null if there is no argument.
  const Tensor* first() const;
  /// Shows the output (null if there is none) to the observers, which may replace it.
  void left(Tensor* output);

 private:
  LayerCall call_;
  const Tensor* given_;
  std::optional<fit::detail::ObserverLink> link_;  // none in a nested call of the layer
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

/// Calls f as a call of this layer with these arguments. Observers see the call. An Error that f throws names the layer
/// that threw it. Without observers and errors it costs nothing. UnaryLayer and all layers of the library use it. Other
/// layers write
///
///     Tensor operator()(const Tensor& ids, const Tensor& mask) const {
///       return nn::within(*this, [&] { return out(attention(token(ids), mask)); });
///     }
///
/// If f takes a Tensor, it gets the first argument, or an observer's replacement.
template <class F>
decltype(auto) within(const Layer& layer, const fit::detail::Inputs& inputs, const F& f) {
  try {
    if (fit::detail::thread_state.observed || layer.hooked()) return detail::observed(layer, inputs, f);
    return detail::call_with(f, inputs.size() > 0 ? &inputs[0] : nullptr);
  } catch (Error& e) {
    detail::add_layer_path(layer, e);
    throw;
  }
}
/// The same, but observers do not see the arguments.
template <class F>
decltype(auto) within(const Layer& layer, const F& f) {
  static_assert(std::is_invocable_v<const F&>, "f takes no argument, unless within() is given arguments");
  return within(layer, fit::detail::Inputs(std::initializer_list<fit::detail::Inputs::Ref>()), f);
}

/// A layer with one input tensor and one output tensor. Sequential holds such layers.
class UnaryLayer : public Layer {
 public:
  virtual Tensor forward(const Tensor& x) const = 0;
  Tensor operator()(const Tensor& x) const {
    return within(*this, {x}, [&](const Tensor& in) { return forward(in); });
  }
};

/// One entry of a layer's list: a name, and a parameter, buffer or layer.
struct Field {
  std::string name;
  Parameter* parameter = nullptr;
  Buffer* buffer = nullptr;
  Layer* layer = nullptr;

  /// The parameter's or buffer's tensor.
  Tensor& value() const { return parameter ? static_cast<Tensor&>(*parameter) : *buffer; }

  /// Replaces a layer that is held by std::shared_ptr. Returns false if the type does not fit.
  bool (*put)(void* held, const std::shared_ptr<Layer>& layer) = nullptr;
  void* held = nullptr;
};

/// Collects the members that a layer lists. A member is a Parameter, a Buffer, a layer, or a std::optional,
/// std::vector, std::array, std::shared_ptr or std::unique_ptr of members. An empty pointer or optional is skipped.
/// Elements of a vector or array are named by position ("blocks.0"). An undefined parameter is listed, too.
///
/// Write the function by hand if the list is known only at run time:
///
///     void fields(nn::Fields& f) override {
///       f.self(*this);                                            // always first
///       for (auto& [name, layer] : branches_) f(name, layer);
///     }
class Fields {
 public:
  /// Sets the layer that the next members belong to. Its class is the static type.
  template <class Self>
  void self(Self& layer);
  template <class T>
  void operator()(const std::string& name, T& member) {
    spans_.push_back({name, reinterpret_cast<const char*>(&member), sizeof member});
    add(name, member);
  }
  /// FIT_FIELDS calls this: it calls self() and adds each member. Commas separate the names.
  template <class Self, class... Members>
  void of(Self& layer, const char* names, const std::tuple<Members&...>& members) {
    self(layer);
    std::apply([&](auto&... member) { ((*this)(next(names), member), ...); }, members);
  }
  const std::vector<Field>& list() const { return list_; }

 private:
  friend class ListOf;
  friend class Layer;
  /// The bytes of a listed member, or of a whole layer.
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

/// Lists the members of a layer, once, in the class: FIT_FIELDS(hidden, out), or FIT_FIELDS() if there are none. List
/// the members of a base class, too.
#define FIT_FIELDS(...) \
  void fields(::fit::nn::Fields& fields_of_) override { fields_of_.of(*this, #__VA_ARGS__, ::std::tie(__VA_ARGS__)); }

}  // namespace fit::nn
