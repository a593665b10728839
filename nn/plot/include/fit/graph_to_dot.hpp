#pragma once
#include <cstdint>
#include <string>

#include "fit/base/option.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"

/// The graph of a loss as text in Graphviz's language.
///
///     std::ofstream("out/loss.dot") << graph_to_dot(model.loss(ids, targets), model);   // before backward()
///     // dot -Tsvg out/loss.dot > out/loss.svg
namespace fit {

/// The options of graph_to_dot().
struct GraphToDotOptions {
  /// A graph with more nodes draws whole layers as single nodes, the smallest layers that suffice. If there are still
  /// too many nodes, only the nodes nearest to the loss are drawn, and one node shows the number of the others.
  FIT_OPTION(std::int64_t, max_nodes) = 200;
};

/// Draws operations with the shapes of their results, and parameters with names and shapes. Arrows lead from inputs to
/// results. Tensors that require no gradient are not in the graph. The same graph gives the same text.
///
/// A graph has no layers. They are inferred from parameter names ("h.0.attn.proj.weight" belongs to h.0.attn.proj). An
/// operation that reads a parameter belongs to its layer. Any other operation belongs to the common layer of the
/// operations recorded before and after it ("h.0.mlp" between "h.0.mlp.fc" and "h.0.mlp.proj"). Operations after the
/// last parameter of a list element belong to this element. Uses of a parameter with several names take them in order.
///
/// Throws Error if the loss has no graph, or if backward() has freed it (retain_graph keeps it).
std::string graph_to_dot(const Tensor& loss, const nn::Layer& model, const GraphToDotOptions& options = {});
/// The same with names for some tensors: model.named_parameters(), or {{"x", x}}.
std::string graph_to_dot(const Tensor& loss, const StateDict& names, const GraphToDotOptions& options = {});
/// The same without names.
std::string graph_to_dot(const Tensor& loss, const GraphToDotOptions& options = {});

}  // namespace fit
