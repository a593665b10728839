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
/// Derivatives of a function nest to any order, as torch.func's: f is called at a copy of x, and while operations are
/// recorded the result is connected to the graphs of x, of v and of every tensor that f captures. The copy is a
/// variable of its own: where f captures x itself, that x is a constant to the inner derivative.
///
///     // d sum(jacobian) / dx = 6 x: the outer derivative goes through the inner one
///     Tensor d = vjp([](const Tensor& a) { return jacobian(cube, a); }, x, ones({2, 2}));
///
/// Under NoGrad nothing is connected, which is faster. Derivatives of tensors leave the graph as it is, so that
/// backward() can still go through it; their result is connected with create_graph only, as grad()'s. What the outputs
/// don't depend on gets zeros.
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

/// The variable for which a function is differentiated: a copy of x that is connected to x's graph, or a leaf.
Tensor connected_variable(const Tensor& x);
Tensor leaf_variable(const Tensor& x);
/// create_graph if y, computed from `variable`, or v is connected to any other graph.
GraphFlags outer_graph(const Tensor& y, const Tensor& variable, const Tensor& v);

// d(f(variable), variable, flags). f is recorded even under NoGrad; the result is not.
template <class F, class D>
Tensor differentiate(const F& f, const Tensor& x, const Tensor& v, const D& d) {
  const bool outer = grad_enabled();
  const EnableGrad recorded;
  const Tensor variable = outer ? connected_variable(x) : leaf_variable(x), y = f(variable);
  return d(y, variable, outer ? outer_graph(y, variable, v) : GraphFlags{});
}
}  // namespace detail

/// The same of a function of x.
template <class F, class = detail::IsFunction<F>>
Tensor jacobian(const F& f, const Tensor& x) {
  return detail::differentiate(f, x, {},
                               [](const Tensor& y, const Tensor& z, GraphFlags g) { return jacobian(y, z, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor batch_jacobian(const F& f, const Tensor& x) {
  return detail::differentiate(f, x, {},
                               [](const Tensor& y, const Tensor& z, GraphFlags g) { return batch_jacobian(y, z, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor batch_hessian(const F& f, const Tensor& x) {
  return detail::differentiate(f, x, {},
                               [](const Tensor& y, const Tensor& z, GraphFlags g) { return batch_hessian(y, z, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor hessian(const F& f, const Tensor& x) {
  return detail::differentiate(f, x, {},
                               [](const Tensor& y, const Tensor& z, GraphFlags g) { return hessian(y, z, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor vjp(const F& f, const Tensor& x, const Tensor& v) {
  return detail::differentiate(f, x, v,
                               [&](const Tensor& y, const Tensor& z, GraphFlags g) { return vjp(y, z, v, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor jvp(const F& f, const Tensor& x, const Tensor& v) {
  return detail::differentiate(f, x, v,
                               [&](const Tensor& y, const Tensor& z, GraphFlags g) { return jvp(y, z, v, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor hvp(const F& f, const Tensor& x, const Tensor& v) {
  return detail::differentiate(f, x, v,
                               [&](const Tensor& y, const Tensor& z, GraphFlags g) { return hvp(y, z, v, g); });
}

}  // namespace fit
