#pragma once
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "fit/nn/layer/layer.hpp"

/// Gradients of each example of a batch, for differential privacy, influence of examples, noise of gradients and
/// natural gradients (PyTorch: vmap(grad(loss), (None, 0, 0)); Opacus: grad_sample).
///
///     const auto loss = [](const Net& net, const Tensor& x, const Tensor& y) { return nn::cross_entropy(net(x), y); };
///     const std::vector<Tensor> g = nn::per_sample_grad(loss, net, x, y);  // g[i]: [B, shape of parameters()[i]...]
///
/// Each example is computed alone, as a batch of one, and the examples are divided among the threads. A small step
/// costs microseconds, so this is faster than formulas for each layer, and it holds for every layer.
///
/// The loss gets a clone() of the model, and runs on several threads: it must use its argument, and no other tensor
/// that requires a gradient. Random numbers (dropout) depend on the example only, not on the number of threads. Throws
/// Error if a layer changes its buffers, as BatchNorm does in training, because it mixes examples; and if the loss
/// calls the model itself, instead of its argument.
namespace fit::nn {

namespace detail {
/// A function of a model and of the fields of a batch of one.
using SampleFunction = std::function<Tensor(Layer&, const std::vector<Tensor>&)>;

std::vector<Tensor> per_sample_grad(const SampleFunction& loss, const Layer& model, const std::vector<Tensor>& batch);
std::vector<Tensor> per_sample_jacobian(const SampleFunction& f, const Layer& model, const std::vector<Tensor>& batch);

template <class Model, class F, std::size_t... I>
SampleFunction of_fields(const F& f, std::index_sequence<I...>) {
  return [&f](Layer& model, const std::vector<Tensor>& row) { return f(static_cast<Model&>(model), row[I]...); };
}
}  // namespace detail

/// The gradients of loss(model, rows of the batch's tensors...), a tensor with one element, with respect to each of
/// model.parameters(): [B, parameter's shape...]; undefined for a frozen parameter. Each tensor of the batch is [B, …].
template <class F, class Model, class... Batch>
std::vector<Tensor> per_sample_grad(const F& loss, const Model& model, const Batch&... batch) {
  return detail::per_sample_grad(detail::of_fields<Model>(loss, std::index_sequence_for<Batch...>()), model,
                                 {batch...});
}

/// Same for a function with any output [1, …] or […]: its Jacobians, [B, output's shape..., parameter's shape...]. One
/// backward pass for each element of the output. Throws Error for outputs of several shapes or types.
template <class F, class Model, class... Batch>
std::vector<Tensor> per_sample_jacobian(const F& f, const Model& model, const Batch&... batch) {
  return detail::per_sample_jacobian(detail::of_fields<Model>(f, std::index_sequence_for<Batch...>()), model,
                                     {batch...});
}

}  // namespace fit::nn
