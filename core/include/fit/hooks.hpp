#pragma once
#include <functional>
#include <type_traits>
#include <utility>

#include "fit/observer.hpp"
#include "fit/tensor.hpp"

/// Functions that are called while backward() runs: with a gradient as soon as it is complete, to look at it or to
/// replace it. A gradient can so be sent, clipped or thrown away while the rest is still being computed. To be called
/// between the nodes of the graph, see Observer::node_left() (observer.hpp).
namespace fit {

/// Holds a hook, and takes it away when destroyed.
using GradHook = Attachment;

namespace detail {
GradHook add_grad_hook(const Tensor& x, std::function<Tensor(const Tensor&)> f);
}

/// f(leaf) is called once in each backward() that gives the leaf something, as soon as nothing more can come: all that
/// came is in leaf.grad() then, with what was there before, and the walk goes on to older nodes afterwards. f may
/// change or replace the gradient. It runs on backward()'s thread, and records only under create_graph. What it throws
/// comes out of backward(); the graph is then taken apart in part, and the gradients of leaves not yet reached are
/// incomplete. Several hooks of a leaf run in the order in which they were registered. grad() calls none.
/// Throws Error if `leaf` is no leaf that wants a gradient, or f is empty. A leaf that is told to want no gradient
/// (requires_grad_(false)) forgets its hooks. As long as no hook exists, nothing is spent on them; while one does, each
/// backward() goes through its graph once beforehand, to count what leads to those leaves.
/// Called after PyTorch's Tensor.register_post_accumulate_grad_hook.
///
///     const GradHook hook = register_post_accumulate_grad_hook(w, [](const Tensor& leaf) { leaf.grad().mul_(0.5); });
[[nodiscard]] GradHook register_post_accumulate_grad_hook(const Tensor& leaf, std::function<void(const Tensor&)> f);

/// f(gradient) is called in each backward() and grad() that comes to x, with the whole gradient of x in that pass. What
/// it gives back takes the gradient's place, for x.grad() and for all that x was computed from; an f that gives
/// nothing, or an undefined tensor, looks on. Of a leaf it sees what this pass brings, without what was in grad()
/// before; hooks of register_post_accumulate_grad_hook() come afterwards. Several of one tensor run in the order in
/// which they were registered, each with what the one before gave; retain_grad() keeps the last. It runs on
/// backward()'s thread, and records only under create_graph. What it throws comes out of backward(). Throws Error if x
/// wants no gradient or f is empty, and out of backward() if f gives another shape or type, or changes the gradient in
/// place, which others may share. Once backward() has taken the graph apart, hooks of what was computed are gone.
/// Called after PyTorch's Tensor.register_hook.
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
