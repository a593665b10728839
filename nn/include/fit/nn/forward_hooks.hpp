#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "fit/nn/layer.hpp"

/// Functions that are called when a layer is called: to look at what goes in and comes out, or to put something else in
/// its place.
namespace fit::nn {

/// Holds a hook, and takes it away when destroyed.
using ForwardHook = Attachment;

/// Attaches an observer to a layer: it sees the calls of this layer on any thread (layer_entered(), layer_left()), and
/// the attention that the layer computes itself, not what layers below compute (attention_computed() and edits). The
/// rules of register_forward_hook() hold. Throws Error if observer is null.
[[nodiscard]] Attachment attach(const Layer& layer, std::shared_ptr<Observer> observer);

namespace detail {
using OnForward = std::function<Tensor(const Layer&, const Tensor&)>;
ForwardHook add_forward_hook(Layer& layer, OnForward f);
ForwardHook add_forward_pre_hook(Layer& layer, OnForward f);

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

/// f(layer, output) is called after each call of the layer that gives a Tensor, or an AttentionResult: then `output` is
/// the result's. What it gives back takes the output's place; an f that gives nothing, or an undefined tensor, looks
/// on. Several run in the order in which they were registered, each with what the one before gave. A call within
/// another of the same layer is part of that one. What f throws comes out of the call. Hooks belong to the object: they
/// move with the layer, and a clone() has none. They may come and go while other threads call the layer; f itself must
/// bear as many threads as call it. A layer without hooks pays nothing for them. Throws Error if f is empty. Called
/// after PyTorch's Module.register_forward_hook.
///
///     const auto hook = nn::register_forward_hook(net.layer("encoder.0"), [&](const nn::Layer&, const Tensor& y) {
///       kept = y.detach();
///     });
template <class F>
[[nodiscard]] ForwardHook register_forward_hook(Layer& layer, F f) {
  return detail::add_forward_hook(layer, detail::on_forward(std::move(f)));
}

/// f(layer, input) is called before each call layer(input), with the same rules. What it gives back is what the layer
/// computes with.
template <class F>
[[nodiscard]] ForwardHook register_forward_pre_hook(UnaryLayer& layer, F f) {
  return detail::add_forward_pre_hook(layer, detail::on_forward(std::move(f)));
}

}  // namespace fit::nn
