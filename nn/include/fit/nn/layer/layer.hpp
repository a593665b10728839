#pragma once
#include <atomic>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "fit/detail/function_ref.hpp"
#include "fit/graph/observer.hpp"
#include "fit/nn/layer/fields.hpp"
#include "fit/nn/layer/parameter.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"

/// The base class of all layers. A layer lists its members once, in FIT_FIELDS. Parameters, dotted names, train() and
/// eval(), printing, saving, loading and cloning follow from that list.
namespace fit::nn {

class Layer;
class UnaryLayer;

namespace detail {

/// Runs a call that observers see. They may replace its inputs (null: not a tensor), and the output that run() returns.
void observe(const Layer& layer, std::initializer_list<Tensor*> inputs, FunctionRef<Tensor*()> run);

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
  using FitCall = std::false_type;  ///< Whether FIT_CALL made the call operator.
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
  /// The options that the weights do not tell, by name, as text: {"num_heads", "4"}. They are saved with the weights;
  /// to load those into a layer with other options is an Error. GPT, BERT, MultiHeadAttention (its heads),
  /// FeedForward (activation), the layers of a Transformer (norm_first) and LoRA's LowRank (alpha) have theirs.
  virtual std::vector<std::pair<std::string, std::string>> saved_options() const;
  /// The name of the class, without namespaces.
  std::string name() const;

  // ---- parameters
  /// All parameters of this layer and its sublayers, as handles. A shared one is listed once, under its first name.
  std::vector<Tensor> parameters() const;
  StateDict named_parameters() const;
  /// Those of these sublayers, under their names in this layer: a group of an optimiser, such as
  /// model.named_parameters({"encoder", "head"}). Throws Error for a name that is no parameter and no sublayer.
  StateDict named_parameters(const std::vector<std::string>& of) const;
  /// The buffers; a shared one is listed once, too.
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
  /// gradients. Returns this layer. Throws Error unless dtype is floating.
  Layer& to(DType dtype);

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
  const Parameter& parameter(const std::string& name) const;
  Layer& layer(const std::string& name);
  const Layer& layer(const std::string& name) const;
  /// The same as its class: gpt.layer<nn::Linear>("h.0.mlp.fc"). Throws Error if the layer is of another class.
  template <class L>
  L& layer(const std::string& name) {
    Layer& found = layer(name);
    if (auto* const one = dynamic_cast<L*>(&found)) return *one;
    fail_class(name, found);
  }
  template <class L>
  const L& layer(const std::string& name) const {
    const Layer& found = layer(name);
    if (auto* const one = dynamic_cast<const L*>(&found)) return *one;
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
  friend void detail::observe(const Layer& layer, std::initializer_list<Tensor*>, FunctionRef<Tensor*()>);
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

inline Tensor* tensor_in(Tensor& x) { return &x; }
template <class A>
Tensor* tensor_in(A&) {
  return nullptr;
}
/// The tensor of a result that observers see: the result, its member `output`, or the first of a pair or tuple.
template <class R>
Tensor* output_of(R& r, long) {
  return tensor_in(r);
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

/// An argument of an observed call: a copy of a tensor, which observers may replace, or a reference.
template <class A>
using Observed = std::conditional_t<std::is_base_of_v<Tensor, std::decay_t<A>>, Tensor, A&&>;

}  // namespace detail

/// Calls f(inputs...) as a call of this layer, for members other than forward(), such as a loss or a decoding step: an
/// Error that f throws names the layer, and observers see the call and may replace its tensors. f returns a value.
/// Without observers and errors it costs nothing.
///
///     Tensor loss(const Tensor& x, const Tensor& y) const {
///       const auto of = [&](const Tensor& x, const Tensor& y) { return nn::mse_loss(out(x), y); };
///       return nn::within(*this, of, x, y);
///     }
template <class F, class... A>
auto within(const Layer& layer, const F& f, A&&... inputs) {
  try {
    if (!fit::detail::thread_state.observed && !layer.hooked()) return f(static_cast<A&&>(inputs)...);
    std::optional<std::decay_t<std::invoke_result_t<const F&, A...>>> result;
    const auto run = [&](detail::Observed<A>... x) {
      detail::observe(layer, {detail::tensor_in(x)...}, [&] {
        return detail::output_of(result.emplace(f(static_cast<detail::Observed<A>&&>(x)...)), 0);
      });
    };
    run(static_cast<A&&>(inputs)...);
    return std::move(*result);
  } catch (Error& e) {
    detail::add_layer_path(layer, e);
    throw;
  }
}

namespace detail {

struct Forward {
  template <class L, class... A>
  auto operator()(L& layer, A&&... a) const -> decltype(layer.forward(static_cast<A&&>(a)...)) {
    return layer.forward(static_cast<A&&>(a)...);
  }
};

/// The type of layer.forward(a...); void if forward() does not take these arguments.
template <class L, class... A>
using CallResult =
    std::decay_t<typename std::conditional_t<std::is_invocable_v<Forward, L, A...>,
                                             std::invoke_result<Forward, L, A...>, std::enable_if<true>>::type>;

/// layer.forward(a...) as a call of the layer.
template <class L, class... A>
CallResult<L&, A...> call_layer(L& layer, A&&... a) {
  constexpr bool taken = !std::is_void_v<CallResult<L&, A...>>;
  static_assert(taken,
                "this layer has no public forward() that takes these arguments (a tensor as const Tensor&), "
                "returns a value, and is const if the layer is const");
  if constexpr (taken) return within(layer, Forward(), layer, static_cast<A&&>(a)...);
}

}  // namespace detail

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
  FIT_CALL /* inside a function: FIT_FIELDS_ONLY */

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

/// The call operator without the list: for a class that writes fields() by hand. The comments stand in the compiler's
/// message where no template may stand.
#define FIT_CALL                                                                                                \
  using FitCall = ::std::true_type;                                                                             \
  template <class... FitA, class = ::fit::nn::detail::NotAny<FitA...>> /* inside a function: FIT_FIELDS_ONLY */ \
  auto operator()(FitA&&... fit_a)->::fit::nn::detail::CallResult<decltype(*this), FitA...> {                   \
    return ::fit::nn::detail::call_layer(*this, static_cast<FitA&&>(fit_a)...);                                 \
  }                                                                                                             \
  template <class... FitA, class = ::fit::nn::detail::NotAny<FitA...>> /* inside a function: FIT_FIELDS_ONLY */ \
  auto operator()(FitA&&... fit_a) const->::fit::nn::detail::CallResult<decltype(*this), FitA...> {             \
    return ::fit::nn::detail::call_layer(*this, static_cast<FitA&&>(fit_a)...);                                 \
  }

}  // namespace fit::nn
