#pragma once
#include <memory>
#include <type_traits>
#include <utility>

#include "fit/detail/function.hpp"
#include "fit/nn/layer/layer.hpp"

/// Hooks: functions that run at each call of a layer. They see its input or output, and can replace it.
namespace fit::nn {

/// Holds a hook. The destructor removes the hook.
using ForwardHook = Attachment;

/// Attaches an observer to a layer. It sees the layer's calls on any thread (layer_entered(), layer_left()). It sees
/// and edits the attention of the layer itself (attention_computed()), but not of sublayers. The rules are those of
/// register_forward_hook(). Throws Error if observer is null.
[[nodiscard]] Attachment attach(const Layer& layer, std::shared_ptr<Observer> observer);

namespace detail {
using OnForward = std::function<Tensor(const Layer&, const Tensor&)>;
enum class When { before, after };
ForwardHook add_hook(const char* op, const Layer& layer, OnForward f, When when);

template <class F>
OnForward on_forward(F f) {
  if constexpr (std::is_constructible_v<bool, F> && !std::is_empty_v<F>)
    if (!f) return nullptr;
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const Layer&, const Tensor&>>)
    return [f = std::move(f)](const Layer& layer, const Tensor& t) mutable {
      f(layer, t);
      return Tensor();
    };
  else
    return f;
}
}  // namespace detail

/// Calls f(layer, output) after each call of the layer that returns a Tensor, a struct with a Tensor `output` such as
/// AttentionResult, or a pair or tuple that begins with a Tensor. A tensor that f returns replaces this one. If f
/// returns nothing or an undefined tensor, the output stays.
/// Hooks run in the order of registration, each with the previous hook's result. A nested call of the same layer calls
/// no hook. The call passes on an exception of f. Hooks belong to the object: they move with the layer, and clone() has
/// none. Hooks may be added and removed while other threads call the layer. f must be thread-safe if several threads
/// call the layer. A layer without hooks has no cost. Throws Error if f is empty, or if the class defines
/// its call operator itself instead of forward(). PyTorch's name: Module.register_forward_hook.
///
///     const auto hook = nn::register_forward_hook(net.layer("encoder.0"), [&](const nn::Layer&, const Tensor& y) {
///       kept = y.detach();
///     });
template <class F>
[[nodiscard]] ForwardHook register_forward_hook(Layer& layer, F f) {
  return detail::add_hook("register_forward_hook", layer, detail::on_forward(std::move(f)), detail::When::after);
}

/// Calls f(layer, input) before each call layer(input, …), with the same rules. `input` is the first argument that is a
/// Tensor. The result of f replaces it.
template <class F>
[[nodiscard]] ForwardHook register_forward_pre_hook(Layer& layer, F f) {
  return detail::add_hook("register_forward_pre_hook", layer, detail::on_forward(std::move(f)), detail::When::before);
}

}  // namespace fit::nn
