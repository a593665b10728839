#pragma once
#include <functional>
#include <type_traits>
#include <utility>

#include "fit/graph/observer.hpp"
#include "fit/tensor/tensor.hpp"

/// Hooks: functions that backward() calls with a gradient as soon as it is complete. A hook reads or replaces the
/// gradient. It can send, clip or discard the gradient while the other gradients are still being computed.
/// Observer::node_left() (observer.hpp) is called between the nodes of the graph.
namespace fit {

/// Holds a hook, and removes it when destroyed: in a function, before its result is differentiated. keep() leaves the
/// hook as long as the graph or the leaf lives.
using GradHook = Attachment;

namespace detail {
GradHook add_grad_hook(const Tensor& x, std::function<Tensor(const Tensor&)> f);
}

/// Calls f(leaf) once in each backward() that gives the leaf a gradient, as soon as the gradient is complete.
/// leaf.grad() then holds the new gradient plus the gradient from before. Afterwards backward() goes on to older nodes.
/// f may change or replace the gradient. f runs on backward()'s thread, and records only under create_graph. An
/// exception of f comes out of backward(); the graph is then partly freed, and leaves that were not reached have
/// incomplete gradients. Several hooks of a leaf run in the order of registration. grad() calls no hooks. Throws Error
/// if `leaf` is not a leaf that requires a gradient, or if f is empty. The hooks of a leaf wait while it does not
/// require a gradient. Hooks cost nothing while none exists. While one exists, each backward() first goes through its
/// graph once, to count the paths to these leaves. Like PyTorch's Tensor.register_post_accumulate_grad_hook.
///
///     const GradHook hook = register_post_accumulate_grad_hook(w, [](const Tensor& leaf) { leaf.grad().mul_(0.5); });
[[nodiscard]] GradHook register_post_accumulate_grad_hook(const Tensor& leaf, std::function<void(const Tensor&)> f);

/// Calls f(gradient) in each backward() and grad() that reaches x, with the complete gradient of x in this pass. The
/// result of f replaces the gradient, for x.grad() and for all tensors from which x was computed. If f returns void or
/// an undefined tensor, the gradient stays. For a leaf, the gradient is that of this pass, without the previous value
/// of grad(); hooks of register_post_accumulate_grad_hook() run afterwards. Several hooks of a tensor run in the order
/// of registration, each with the result of the one before; retain_grad() keeps the last result. f runs on backward()'s
/// thread, and records only under create_graph. An exception of f comes out of backward(). Throws Error if x requires
/// no gradient or f is empty. backward() throws Error if f returns another shape or type, or changes the (shared)
/// gradient in place. Freeing the graph in backward() removes the hooks of tensors that are not leaves. Like PyTorch's
/// Tensor.register_hook.
///
///     const GradHook hook = register_hook(h, [](const Tensor& g) { return clamp(g, -1, 1); });
template <class F>
[[nodiscard]] GradHook register_hook(const Tensor& x, F f) {
  if constexpr (std::is_constructible_v<bool, F> && !std::is_empty_v<F>)
    if (!f) return detail::add_grad_hook(x, nullptr);
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const Tensor&>>)
    return detail::add_grad_hook(x, [f = std::move(f)](const Tensor& g) mutable {
      f(g);
      return Tensor();
    });
  else
    return detail::add_grad_hook(x, std::move(f));
}

}  // namespace fit
