#pragma once
#include <type_traits>
#include <vector>

#include "fit/graph/graph.hpp"

/// Derivatives like PyTorch's torch.autograd.functional: of tensors that are in the graph, or of functions.
///
///     Tensor x = randn({3}).requires_grad_();
///     Tensor J = jacobian(exp(x), x);                                                  // of tensors
///     Tensor H = hessian([](const Tensor& z) { return sum(z * z * z); }, randn({3}));   // of a function
///     std::vector<Tensor> Hv = hvp(loss, model.parameters(), directions);
///
/// Derivatives of functions nest to any order, as in torch.func. f is called with a copy of x. While operations are
/// recorded, the result is connected to the graphs of x, of v and of every tensor that f captures. The copy is a
/// separate variable: if f captures x itself, this x is a constant for the inner derivative.
///
///     // d sum(jacobian) / dx = 6 x: the outer derivative includes the inner one
///     Tensor d = vjp([](const Tensor& a) { return jacobian(cube, a); }, x, ones({2, 2}));
///
/// Under NoGrad the result is not connected, which is faster. Derivatives of tensors leave the graph intact, so that
/// backward() still works. Their result is connected to the graph only with create_graph, as for grad(). If the outputs
/// don't depend on an input, its derivative is zeros.
namespace fit {

/// dy_i / dx_j, [shape of y..., shape of x...]. Takes one backward pass for each element of y.
Tensor jacobian(const Tensor& y, const Tensor& x, GraphFlags flags = {});
/// One Jacobian for each input.
std::vector<Tensor> jacobian(const Tensor& y, const std::vector<Tensor>& inputs, GraphFlags flags = {});

/// Jacobians of a batch if row b of y [B, …] depends on row b of x [B, …] only: dy_b / dx_b, [B, rest of y's shape...,
/// rest of x's shape...]. Takes one backward pass for each element of a row of y, for any B. If rows depend on each
/// other, as in batch normalisation during training, each row gets the sum over all rows. (PyTorch: vmap(jacrev(f)).)
Tensor batch_jacobian(const Tensor& y, const Tensor& x, GraphFlags flags = {});
/// Same for second derivatives of y [B]: d^2 y_b / dx_b dx_b, [B, rest of x's shape..., rest of x's shape...]. Takes
/// one backward pass for each element of a row of x.
Tensor batch_hessian(const Tensor& y, const Tensor& x, GraphFlags flags = {});

/// d^2 y / dx_i dx_j of y with one element, [shape of x..., shape of x...]. One backward pass for each element of x.
Tensor hessian(const Tensor& y, const Tensor& x, GraphFlags flags = {});
/// For several inputs: [i][j] is d^2 y / dx_i dx_j, [shape of x_i..., shape of x_j...].
std::vector<std::vector<Tensor>> hessian(const Tensor& y, const std::vector<Tensor>& inputs, GraphFlags flags = {});

/// v^T J = sum_i v_i dy_i / dx, of x's shape; v has y's. Takes one backward pass: grad(y, x, v).
Tensor vjp(const Tensor& y, const Tensor& x, const Tensor& v, GraphFlags flags = {});
/// One product for each input.
std::vector<Tensor> vjp(const Tensor& y, const std::vector<Tensor>& inputs, const Tensor& v, GraphFlags flags = {});

/// J v = sum_j dy / dx_j v_j, of y's shape; v has x's. Takes two backward passes: v^T J is linear in v, and J v is its
/// derivative (j-bell.github.io, "a new trick for calculating Jacobian vector products", 2017).
Tensor jvp(const Tensor& y, const Tensor& x, const Tensor& v, GraphFlags flags = {});
/// For several inputs at once: sum_i dy / dx_i v_i, of y's shape.
Tensor jvp(const Tensor& y, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v, GraphFlags flags = {});

/// H v of y with one element; v and the result have x's shape. It is the derivative of the dot product of the gradient
/// and v (Pearlmutter 1994).
Tensor hvp(const Tensor& y, const Tensor& x, const Tensor& v, GraphFlags flags = {});
/// For several inputs at once, for example a model's parameters: (H v)_i = sum_j d^2 y / dx_i dx_j v_j.
std::vector<Tensor> hvp(const Tensor& y, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v,
                        GraphFlags flags = {});

namespace detail {
template <class F>
using IsFunction = std::enable_if_t<std::is_invocable_r_v<Tensor, const F&, const Tensor&>>;

/// The variable for differentiating a function: a copy of x, connected to x's graph; or a leaf. Errors name `op`.
Tensor connected_variable(const char* op, const Tensor& x);
Tensor leaf_variable(const char* op, const Tensor& x);
/// create_graph if y (computed from `variable`) or v is connected to another graph; otherwise no flags.
GraphFlags outer_graph(const Tensor& y, const Tensor& variable, const Tensor& v);

// Computes d(f(variable), variable, flags). f is recorded even under NoGrad; the result is not.
template <class F, class D>
Tensor differentiate(const char* op, const F& f, const Tensor& x, const Tensor& v, const D& d) {
  const bool outer = grad_enabled();
  const EnableGrad recorded;
  const Tensor variable = outer ? connected_variable(op, x) : leaf_variable(op, x), y = f(variable);
  return d(y, variable, outer ? outer_graph(y, variable, v) : GraphFlags{});
}
}  // namespace detail

/// The same derivatives for a function of x.
template <class F, class = detail::IsFunction<F>>
Tensor jacobian(const F& f, const Tensor& x) {
  return detail::differentiate("jacobian", f, x, {},
                               [](const Tensor& y, const Tensor& z, GraphFlags g) { return jacobian(y, z, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor batch_jacobian(const F& f, const Tensor& x) {
  return detail::differentiate("batch_jacobian", f, x, {},
                               [](const Tensor& y, const Tensor& z, GraphFlags g) { return batch_jacobian(y, z, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor batch_hessian(const F& f, const Tensor& x) {
  return detail::differentiate("batch_hessian", f, x, {},
                               [](const Tensor& y, const Tensor& z, GraphFlags g) { return batch_hessian(y, z, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor hessian(const F& f, const Tensor& x) {
  return detail::differentiate("hessian", f, x, {},
                               [](const Tensor& y, const Tensor& z, GraphFlags g) { return hessian(y, z, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor vjp(const F& f, const Tensor& x, const Tensor& v) {
  return detail::differentiate("vjp", f, x, v,
                               [&](const Tensor& y, const Tensor& z, GraphFlags g) { return vjp(y, z, v, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor jvp(const F& f, const Tensor& x, const Tensor& v) {
  return detail::differentiate("jvp", f, x, v,
                               [&](const Tensor& y, const Tensor& z, GraphFlags g) { return jvp(y, z, v, g); });
}
template <class F, class = detail::IsFunction<F>>
Tensor hvp(const F& f, const Tensor& x, const Tensor& v) {
  return detail::differentiate("hvp", f, x, v,
                               [&](const Tensor& y, const Tensor& z, GraphFlags g) { return hvp(y, z, v, g); });
}

}  // namespace fit
