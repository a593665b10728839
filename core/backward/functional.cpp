// Jacobians, Hessians and their products with vectors, by grad().
#include "fit/backward/functional.hpp"

#include <algorithm>

#include "backward/gradients.hpp"
#include "fit/ops/ops.hpp"
#include "graph/node.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

Shape joined(const Shape& a, const Shape& b) {
  std::vector<std::int64_t> sizes;
  for (const Shape* s : {&a, &b})
    for (int i = 0; i < s->rank(); ++i) sizes.push_back((*s)[i]);
  return Shape(sizes);
}

void check_inputs(const char* op, const std::vector<Tensor>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check::defined(op, ("input " + std::to_string(i)).c_str(), inputs[i]);
    if (!inputs[i].requires_grad())
      check::fail(op, "input ", i, " of shape ", inputs[i].shape(),
                  " wants no gradient: call requires_grad_() on it before computing the outputs");
  }
}

// The gradients of one output, which retain the graph.
std::vector<Tensor> gradients(const Tensor& y, const std::vector<Tensor>& inputs, const Tensor& seed,
                              GraphFlags flags) {
  return detail::gradients({y}, inputs, {seed}, flags | retain_graph);
}

void check_one(const char* op, const Tensor& y) {
  check::defined(op, "y", y);
  if (y.numel() != 1)
    check::fail(op, "y has shape ", y.shape(), ": it must have one element; call sum() or mean() first");
}

void check_vector(const char* op, const char* of, const Tensor& v, const Tensor& x) {
  check::defined(op, "v", v);
  check::defined(op, of, x);
  if (v.shape() != x.shape()) check::fail(op, "v is ", v.shape(), ", ", of, " is ", x.shape(), ": they must be equal");
}

void check_vectors(const char* op, const std::vector<Tensor>& v, const std::vector<Tensor>& inputs) {
  check_inputs(op, inputs);
  if (v.size() != inputs.size())
    check::fail(op, v.size(), " vectors for ", inputs.size(), " inputs: there must be one for each");
  for (std::size_t i = 0; i < v.size(); ++i) check_vector(op, ("input " + std::to_string(i)).c_str(), v[i], inputs[i]);
}

// sum_i a_i . b_i; undefined for empty lists.
Tensor dots(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  Tensor total;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor term = sum(a[i] * b[i]);
    total = total.defined() ? total + term : term;
  }
  return total;
}

}  // namespace

std::vector<Tensor> detail::gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                                      const std::vector<Tensor>& seeds, GraphFlags flags) {
  std::vector<Tensor> y, v;
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (outputs[k].requires_grad()) {
      y.push_back(outputs[k]);
      v.push_back(seeds[k]);
    }
  std::vector<Tensor> g = y.empty() ? std::vector<Tensor>(inputs.size()) : grad(y, inputs, v, flags | allow_unused);
  for (std::size_t i = 0; i < g.size(); ++i)
    if (!g[i].defined()) g[i] = zeros_like(inputs[i]);
  return g;
}

Tensor detail::leaf_variable(const char* op, const Tensor& x) {
  check::floating(op, "x", x);
  return x.detach().requires_grad_();
}

Tensor detail::connected_variable(const char* op, const Tensor& x) {
  check::defined(op, "x", x);
  return x.requires_grad() ? reshape(x, x.shape()) : leaf_variable(op, x);
}

GraphFlags detail::outer_graph(const Tensor& y, const Tensor& variable, const Tensor& v) {
  if (!y.defined() || !y.requires_grad()) return {};
  if (!variable.is_leaf() || (v.defined() && v.requires_grad())) return create_graph;
  const std::vector<Node*> nodes = nodes_behind(y.impl()->node);
  const auto other = [&](const Node* n) { return n->leaf() && n != variable.impl()->node; };
  return std::any_of(nodes.begin(), nodes.end(), other) ? create_graph : GraphFlags{};
}

std::vector<Tensor> jacobian(const Tensor& y, const std::vector<Tensor>& inputs, GraphFlags flags) {
  check::defined("jacobian", "y", y);
  check::floating("jacobian", "y", y);
  check_inputs("jacobian", inputs);
  std::vector<std::vector<Tensor>> rows(inputs.size());
  const std::int64_t n = y.numel();
  const Tensor units = eye(n, n, y.dtype());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::vector<Tensor> row = gradients(y, inputs, reshape(units[i], y.shape()), flags);
    for (std::size_t k = 0; k < inputs.size(); ++k) rows[k].push_back(row[k]);
  }
  std::vector<Tensor> all;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Shape shape = joined(y.shape(), inputs[k].shape());
    all.push_back(n == 0 ? zeros(shape, inputs[k].dtype()) : reshape(stack(rows[k]), shape));
  }
  return all;
}

Tensor jacobian(const Tensor& y, const Tensor& x, GraphFlags flags) {
  return jacobian(y, std::vector<Tensor>{x}, flags)[0];
}

Tensor batch_jacobian(const Tensor& y, const Tensor& x, GraphFlags flags) {
  constexpr const char* op = "batch_jacobian";
  check::defined(op, "y", y);
  check::floating(op, "y", y);
  check_inputs(op, {x});
  if (y.rank() < 1 || x.rank() < 1 || y.size(0) != x.size(0))
    check::fail(op, "y is ", y.shape(), ", x is ", x.shape(), ": both must be [B, …], of as many rows");
  const Shape shape = joined(y.shape(), x.shape().erased(0));
  if (shape.numel() == 0) return zeros(shape, x.dtype());
  const std::int64_t B = y.size(0), n = y.numel() / B;
  const Tensor units = eye(n, n, y.dtype());
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < n; ++i)
    rows.push_back(gradients(y, {x}, reshape(broadcast_to(units[i], {B, n}), y.shape()), flags)[0]);
  return reshape(stack(rows, 1), shape);
}

Tensor batch_hessian(const Tensor& y, const Tensor& x, GraphFlags flags) {
  constexpr const char* op = "batch_hessian";
  check::defined(op, "y", y);
  check_inputs(op, {x});
  if (x.rank() < 1 || y.shape() != Shape{x.size(0)})
    check::fail(op, "y is ", y.shape(), ", x is ", x.shape(), ": x must be [B, …] and y [B]");
  return batch_jacobian(gradients(y, {x}, ones_like(y), flags | create_graph)[0], x, flags);
}

Tensor hessian(const Tensor& y, const Tensor& x, GraphFlags flags) {
  check_one("hessian", y);
  check_inputs("hessian", {x});
  return jacobian(gradients(y, {x}, ones_like(y), flags | create_graph)[0], x, flags);
}

std::vector<std::vector<Tensor>> hessian(const Tensor& y, const std::vector<Tensor>& inputs, GraphFlags flags) {
  check_one("hessian", y);
  check_inputs("hessian", inputs);
  std::vector<std::vector<Tensor>> all;
  for (const Tensor& g : gradients(y, inputs, ones_like(y), flags | create_graph))
    all.push_back(jacobian(g, inputs, flags));
  return all;
}

std::vector<Tensor> vjp(const Tensor& y, const std::vector<Tensor>& inputs, const Tensor& v, GraphFlags flags) {
  check_vector("vjp", "y", v, y);
  check_inputs("vjp", inputs);
  return gradients(y, inputs, v, flags);
}

Tensor vjp(const Tensor& y, const Tensor& x, const Tensor& v, GraphFlags flags) {
  return vjp(y, std::vector<Tensor>{x}, v, flags)[0];
}

Tensor jvp(const Tensor& y, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v, GraphFlags flags) {
  check::defined("jvp", "y", y);
  check_vectors("jvp", v, inputs);
  const EnableGrad recorded;
  const Tensor u = zeros_like(y).requires_grad_();
  const Tensor product = dots(gradients(y, inputs, u, create_graph), v);
  return product.defined() ? gradients(product, {u}, ones_like(product), flags)[0] : zeros_like(y);
}

Tensor jvp(const Tensor& y, const Tensor& x, const Tensor& v, GraphFlags flags) {
  check_vector("jvp", "x", v, x);
  return jvp(y, std::vector<Tensor>{x}, std::vector<Tensor>{v}, flags);
}

std::vector<Tensor> hvp(const Tensor& y, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v,
                        GraphFlags flags) {
  check_one("hvp", y);
  check_vectors("hvp", v, inputs);
  const EnableGrad recorded;
  const Tensor product = dots(gradients(y, inputs, ones_like(y), create_graph), v);
  if (!product.defined()) return {};
  return gradients(product, inputs, ones_like(product), flags);
}

Tensor hvp(const Tensor& y, const Tensor& x, const Tensor& v, GraphFlags flags) {
  return hvp(y, std::vector<Tensor>{x}, std::vector<Tensor>{v}, flags)[0];
}

}  // namespace fit
