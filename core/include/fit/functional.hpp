#pragma once
#include <type_traits>
#include <vector>

#include "fit/graph.hpp"

/// Derivatives as PyTorch's torch.autograd.functional has them, of tensors that are in the graph or of functions.
///
///     Tensor x = randn({3}).requires_grad_();
///     Tensor J = jacobian(exp(x), x);                                    // of what was computed
///     Tensor H = hessian([](const Tensor& z) { return sum(z * z * z); }, randn({3}));   // of a function
///     std::vector<Tensor> Hv = hvp(loss, model.parameters(), directions);
///
/// Those of a function take it at a copy of x outside of x's graph. Those of tensors leave the graph as it is, so that
/// backward() can still go through it. All take create_graph, which makes the result differentiable again; what the
/// outputs don't depend on gets zeros.
namespace fit {

/// dy_i / dx_j, [shape of y..., shape of x...], in one backward pass for each element of y.
Tensor jacobian(const Tensor& y, const Tensor& x, GraphFlags flags = {});
/// One for each input.
std::vector<Tensor> jacobian(const Tensor& y, const std::vector<Tensor>& inputs, GraphFlags flags = {});

/// Of a batch, where row b of y [B, …] depends on row b of x [B, …] alone: dy_b / dx_b, [B, rest of y's shape..., rest
/// of x's shape...], in one backward pass for each element of a row of y, whatever B is. Where rows depend on each
/// other, as through batch normalisation in training, each gets the sum over all of them. (PyTorch: vmap(jacrev(f)).)
Tensor batch_jacobian(const Tensor& y, const Tensor& x, GraphFlags flags = {});
/// The same of second derivatives, of y [B]: d^2 y_b / dx_b dx_b, [B, rest of x's shape..., rest of x's shape...], in
/// one backward pass for each element of a row of x.
Tensor batch_hessian(const Tensor& y, const Tensor& x, GraphFlags flags = {});

/// d^2 y / dx_i dx_j of y with one element, [shape of x..., shape of x...], in one backward pass for each element of x.
Tensor hessian(const Tensor& y, const Tensor& x, GraphFlags flags = {});
/// For several inputs: [i][j] is d^2 y / dx_i dx_j, [shape of x_i..., shape of x_j...].
std::vector<std::vector<Tensor>> hessian(const Tensor& y, const std::vector<Tensor>& inputs, GraphFlags flags = {});

/// v^T J = sum_i v_i dy_i / dx, of x's shape; v has y's. One backward pass: grad(y, x, v).
Tensor vjp(const Tensor& y, const Tensor& x, const Tensor& v, GraphFlags flags = {});
/// One for each input.
std::vector<Tensor> vjp(const Tensor& y, const std::vector<Tensor>& inputs, const Tensor& v, GraphFlags flags = {});

/// J v = sum_j dy / dx_j v_j, of y's shape; v has x's. Two backward passes: v^T J is linear in v, and J v its
/// derivative (j-bell.github.io, "a new trick for calculating Jacobian vector products", 2017).
Tensor jvp(const Tensor& y, const Tensor& x, const Tensor& v, GraphFlags flags = {});
/// For several inputs at once: sum_i dy / dx_i v_i, of y's shape.
Tensor jvp(const Tensor& y, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v, GraphFlags flags = {});

/// H v of y with one element, of x's shape, as v: the derivative of the gradient's product with v (Pearlmutter 1994).
Tensor hvp(const Tensor& y, const Tensor& x, const Tensor& v, GraphFlags flags = {});
/// For several inputs at once, a model's parameters for instance: (H v)_i = sum_j d^2 y / dx_i dx_j v_j.
std::vector<Tensor> hvp(const Tensor& y, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v,
                        GraphFlags flags = {});

namespace detail {
template <class F>
using IsFunction = std::enable_if_t<std::is_invocable_r_v<Tensor, const F&, const Tensor&>>;

// d(f(x), x), recorded whatever the state of this thread.
template <class F, class D>
Tensor at_copy(const F& f, const Tensor& x, const D& d) {
  const EnableGrad recorded;
  const Tensor copy = x.detach().requires_grad_();
  return d(f(copy), copy);
}
}  // namespace detail

/// The same of a function, at a copy of x outside of its graph.
template <class F, class = detail::IsFunction<F>>
Tensor jacobian(const F& f, const Tensor& x) {
  return detail::at_copy(f, x, [](const Tensor& y, const Tensor& z) { return jacobian(y, z); });
}
template <class F, class = detail::IsFunction<F>>
Tensor batch_jacobian(const F& f, const Tensor& x) {
  return detail::at_copy(f, x, [](const Tensor& y, const Tensor& z) { return batch_jacobian(y, z); });
}
template <class F, class = detail::IsFunction<F>>
Tensor batch_hessian(const F& f, const Tensor& x) {
  return detail::at_copy(f, x, [](const Tensor& y, const Tensor& z) { return batch_hessian(y, z); });
}
template <class F, class = detail::IsFunction<F>>
Tensor hessian(const F& f, const Tensor& x) {
  return detail::at_copy(f, x, [](const Tensor& y, const Tensor& z) { return hessian(y, z); });
}
template <class F, class = detail::IsFunction<F>>
Tensor vjp(const F& f, const Tensor& x, const Tensor& v) {
  return detail::at_copy(f, x, [&](const Tensor& y, const Tensor& z) { return vjp(y, z, v); });
}
template <class F, class = detail::IsFunction<F>>
Tensor jvp(const F& f, const Tensor& x, const Tensor& v) {
  return detail::at_copy(f, x, [&](const Tensor& y, const Tensor& z) { return jvp(y, z, v); });
}
template <class F, class = detail::IsFunction<F>>
Tensor hvp(const F& f, const Tensor& x, const Tensor& v) {
  return detail::at_copy(f, x, [&](const Tensor& y, const Tensor& z) { return hvp(y, z, v); });
}

}  // namespace fit
