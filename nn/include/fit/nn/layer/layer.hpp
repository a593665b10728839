#pragma once
#include <cstddef>
#include <iosfwd>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "fit/detail/atomic.hpp"
#include "fit/detail/function.hpp"
#include "fit/detail/owned.hpp"
#include "fit/graph/observer.hpp"
#include "fit/nn/layer/fields.hpp"
#include "fit/nn/layer/parameter.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"

/// The base class of all layers. A layer lists its members once, in FIT_FIELDS. Parameters, dotted names, train() and
/// eval(), printing, saving, loading and cloning follow from that list.
namespace fit::nn {

class UnaryLayer;

namespace detail {

class ObservedCall;

}  // namespace detail

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
/// each layer. It does not find unlisted members inside a std::vector or std::map or behind a pointer, nor a Tensor
/// that requires a gradient: diagnose() reports these. Use ModuleList for several layers.
///
/// After a move, the list of the layer that was moved from throws Error, and an Error of its call says so.
class Layer : public detail::Member {
 public:
  virtual ~Layer() = default;
  Layer(Layer&& o) noexcept
      : Member(o),
        training_(o.training_),
        moved_from_(std::exchange(o.moved_from_, true)),
        attached_(std::move(o.attached_)) {}
  Layer& operator=(Layer&& o) noexcept {
    training_ = o.training_;
    moved_from_ = std::exchange(o.moved_from_, true);
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
  /// The same as its class: gpt.layer<nn::Linear>("h.0.mlp.fc"). Throws Error if the layer is of another class.
  template <class L>
  L& layer(const std::string& name) {
    Layer& found = layer(name);
    if (auto* const one = dynamic_cast<L*>(&found)) return *one;
    fail_class(name, found);
  }
  /// Replaces the layer with this dotted name. A std::shared_ptr must hold it, as in Sequential and ModuleList. Throws
  /// Error otherwise, or if the pointer is to another class. (Assign to a member: net.fc = nn::Linear(2, 3).)
  void replace(const std::string& name, const std::shared_ptr<Layer>& layer);
  /// Calls f on all sublayers and then on this layer.
  void apply(const std::function<void(Layer&)>& f);

  // ---- the mode of this layer and all sublayers: training (the default) or evaluation. Dropout reads it.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  /// Derived classes hide it by their own forward(…), which a call runs: see FIT_FIELDS.
  void forward(detail::NoForward) const;

  /// Whether observers are attached, see forward_hooks.hpp.
  bool hooked() const { return attached_.any(); }
  /// Whether another layer was made from this one by std::move(), and none was assigned to it since.
  bool moved_from() const { return moved_from_; }

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
  [[noreturn]] void fail_class(const std::string& name, const Layer& found) const;
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

  bool training_ = true, moved_from_ = false;
  mutable fit::detail::Atomic<const std::type_info*> checked_{nullptr};  // the class for which the list was checked
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
  ObservedCall(const Layer& layer, std::vector<Tensor> inputs);
  ~ObservedCall();
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;
  /// The arguments, or an observer's replacements.
  const Tensor* inputs() const { return call_.inputs.data(); }
  /// Shows the output (null if there is none) to the observers, which may replace it.
  void left(Tensor* output);

 private:
  // The public constructor delegates: its exception then calls the destructor, which notifies the observers.
  explicit ObservedCall(LayerCall call) : call_(std::move(call)) {}

  LayerCall call_;
  fit::detail::Owned<fit::detail::ObserverLink> link_;  // none in a nested call of the layer
  bool done_ = false;
};

/// The tensor of a result that observers see and may replace: the result itself, its member `output`, or the first
/// tensor of a pair or tuple. Null if there is none.
template <class R>
Tensor* output_of(R&, long) {
  return nullptr;
}
template <class R>
auto output_of(R& r, int) -> std::enable_if_t<std::is_same_v<decltype(R::output), Tensor>, Tensor*> {
  return &r.output;
}
template <class B>
Tensor* output_of(std::pair<Tensor, B>& r, int) {
  return &r.first;
}
template <class... B>
Tensor* output_of(std::tuple<Tensor, B...>& r, int) {
  return &std::get<0>(r);
}

/// f(inputs) as an observed call.
template <class F, class Result = decltype(std::declval<const F&>()(std::declval<const Tensor*>()))>
Result observed(const Layer& layer, std::vector<Tensor> inputs, const F& f) {
  ObservedCall call(layer, std::move(inputs));
  if constexpr (std::is_void_v<Result>) {
    f(call.inputs());
    call.left(nullptr);
  } else {
    Result result = f(call.inputs());
    if constexpr (std::is_same_v<Result, Tensor>) {
      call.left(&result);
    } else if constexpr (std::is_base_of_v<Tensor, std::decay_t<Result>>) {
      Tensor shown = result;
      call.left(&shown);
    } else {
      call.left(output_of(result, 0));
    }
    return result;
  }
}

template <class F, class Seen>
auto named_call(const Layer& layer, const F& plain, const Seen& seen) -> decltype(plain()) {
  try {
    if (fit::detail::thread_state.observed || layer.hooked()) return seen();
    return plain();
  } catch (Error& e) {
    add_layer_path(layer, e);
    throw;
  }
}

// ---- the call operator: layer(a...) runs layer.forward(a...) as a call of the layer

template <class L, class... A>
using ForwardResult = decltype(std::declval<L&>().forward(std::declval<A>()...));
template <class Void, class L, class... A>
struct Takes : std::false_type {
  using Result = void;
};
template <class L, class... A>
struct Takes<std::void_t<ForwardResult<L, A...>>, L, A...> : std::true_type {
  using Result = ForwardResult<L, A...>;
};
/// Whether layer.forward(a...) compiles.
template <class L, class... A>
inline constexpr bool takes = Takes<void, L, A...>::value;

template <class A>
inline constexpr bool is_tensor = std::is_base_of_v<Tensor, std::decay_t<A>>;
/// forward() gets tensors as const Tensor&, so that observers can replace them. Others are forwarded.
template <class A>
using Passed = std::conditional_t<is_tensor<A>, const Tensor&, A&&>;

/// Argument a; if it is a tensor and there are replacements, the next of these.
template <class A>
Passed<A> pass(std::remove_reference_t<A>& a, const Tensor*& given) {
  if constexpr (is_tensor<A>)
    return given ? *given++ : a;
  else
    return static_cast<A&&>(a);
}

/// The result of forward(). Arguments that it does not take are for the call operator of the class's own, if it has
/// one.
template <class L, class... A>
using CallResult = std::enable_if_t<
    std::disjunction_v<Takes<void, L, Passed<A>...>, std::negation<HasOwnCall<std::remove_reference_t<L>>>>,
    typename Takes<void, L, Passed<A>...>::Result>;

template <class L, class... A>
CallResult<L, A...> call_layer(L& layer, A&&... a) {
  static_assert(HasForward<L>::value,
                "this layer has no forward(): write its computation as a member forward(...), which a call runs");
  static_assert(!HasForward<L>::value || takes<L, Passed<A>...>,
                "forward() of this layer does not take these arguments: compare their number, order and types with its "
                "declaration. It must be public, take tensors as const Tensor&, and be const if the layer is const");
  if constexpr (takes<L, Passed<A>...>) {
    using Result = CallResult<L, A...>;
    const auto forward = [&](const Tensor* given) -> Result {
      // Braces fix the order in which the arguments take their replacements.
      const std::tuple<Passed<A>...> all{pass<A>(a, given)...};
      return std::apply([&](auto&&... x) -> Result { return layer.forward(static_cast<Passed<A>>(x)...); }, all);
    };
    return named_call(
        layer, [&]() -> Result { return forward(nullptr); },
        [&]() -> Result {
          std::vector<Tensor> inputs;
          const auto add = [&](const auto& x) {
            if constexpr (is_tensor<decltype(x)>) inputs.push_back(x);
          };
          (add(a), ...);
          return observed(layer, std::move(inputs), forward);
        });
  }
}

}  // namespace detail

/// Calls f as a call of this layer, for members other than forward(), such as a loss or a decoding step: an Error that
/// f throws names the layer, and observers see the call, with the tensors in `inputs`. Without observers and errors it
/// costs nothing.
///
///     Tensor loss(const Tensor& x, const Tensor& y) const {
///       return nn::within(*this, {x, y}, [&] { return nn::cross_entropy(out(x), y); });
///     }
template <class F>
decltype(auto) within(const Layer& layer, const fit::detail::Inputs& inputs, const F& f) {
  return detail::named_call(layer, f, [&]() -> decltype(f()) {
    std::vector<Tensor> all;
    for (int i = 0; i < inputs.size(); ++i) all.push_back(inputs[i]);
    return detail::observed(layer, std::move(all), [&](const Tensor*) -> decltype(f()) { return f(); });
  });
}
template <class F>
decltype(auto) within(const Layer& layer, const F& f) {
  return within(layer, fit::detail::Inputs(std::initializer_list<fit::detail::Inputs::Ref>()), f);
}

/// A layer with one input tensor and one output tensor. Sequential holds such layers.
class UnaryLayer : public Layer {
 public:
  virtual Tensor forward(const Tensor& x) const = 0;
  Tensor operator()(const Tensor& x) const;
};

/// Lists the members of a layer, once, in the public part of the class: FIT_FIELDS(hidden, out), or FIT_FIELDS() if
/// there are none. List the members of a base class, too. Makes the call operator: layer(a, b) runs layer.forward(a,
/// b), for every forward() that the class has. Hooks and observers see the call, and an Error names the layer.
#define FIT_FIELDS(...)        \
  FIT_FIELDS_ONLY(__VA_ARGS__) \
  FIT_CALL

/// The list without the call operator: for a class inside a function, where C++ allows no templates. The base class
/// then has the call operator (UnaryLayer), or none is needed.
#define FIT_FIELDS_ONLY(...) \
  void fields(::fit::nn::Fields& fields_of_) override { fields_of_.of(*this, #__VA_ARGS__)(__VA_ARGS__); }

/// FIT_FIELDS in two parts, for a class in a header that many files include: FIT_FIELDS_DECLARED in the class, and
/// FIT_FIELDS_OF(Net, hidden, out) in its source. The files compile faster, as the list is compiled once. Without
/// members, write `void Net::fields(nn::Fields& f) { f.self(*this); }` in the source.
#define FIT_FIELDS_DECLARED                            \
  void fields(::fit::nn::Fields& fields_of_) override; \
  FIT_CALL
/// The second part of FIT_FIELDS_DECLARED: lists the members of `Class`, in its source.
#define FIT_FIELDS_OF(Class, ...) \
  void Class::fields(::fit::nn::Fields& fields_of_) { fields_of_.of(*this, #__VA_ARGS__)(__VA_ARGS__); }

/// The call operator without the list: for a class that writes fields() by hand.
#define FIT_CALL                                      \
  using FitCall = void; /* the class has this call */ \
  FIT_CALL_OF()                                       \
  FIT_CALL_OF(const)
/// For FIT_CALL only.
#define FIT_CALL_OF(qualifier)                                                                          \
  template <class... FitA, class = ::fit::nn::detail::NotAny<FitA...>>                                  \
  auto operator()(FitA&&... fit_a) qualifier->::fit::nn::detail::CallResult<decltype(*this), FitA...> { \
    return ::fit::nn::detail::call_layer(*this, static_cast<FitA&&>(fit_a)...);                         \
  }

}  // namespace fit::nn
