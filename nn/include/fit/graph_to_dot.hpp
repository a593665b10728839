#pragma once
#include <cstdint>
#include <string>

#include "fit/nn/layer.hpp"
#include "fit/option.hpp"
#include "fit/state_dict.hpp"
#include "fit/tensor.hpp"

/// The graph of a loss as text in Graphviz's language.
///
///     std::ofstream("out/loss.dot") << graph_to_dot(model.loss(ids, targets), model);   // before backward()
///     // dot -Tsvg out/loss.dot > out/loss.svg
namespace fit {

/// What graph_to_dot() draws.
struct GraphToDotOptions {
  /// With more nodes than this, layers are drawn as one node each: the largest that keep to it. If there are still too
  /// many, only the nodes nearest to the loss are drawn, and a node says how many more there are.
  FIT_OPTION(std::int64_t, max_nodes) = 200;
};

/// Operations with the shapes of their results, parameters with their names and shapes, and arrows from what is read to
/// what is computed, the loss last. What wants no gradient is not in the graph. The same graph gives the same text.
///
/// A graph knows no layers. They are found by the names of parameters ("h.0.attn.proj.weight" is one of h.0.attn.proj):
/// an operation that reads a parameter belongs to its layer; any other to the layer that those before and after it, in
/// the order of their making, have in common ("h.0.mlp" between "h.0.mlp.fc" and "h.0.mlp.proj"). What follows the last
/// parameter of an element of a list belongs to that element. A parameter of several names has them in the order of its
/// uses.
///
/// Throws Error if the loss has no graph, or if backward() has freed it (retain_graph keeps it).
std::string graph_to_dot(const Tensor& loss, const nn::Layer& model, const GraphToDotOptions& options = {});
/// With names for some tensors: model.named_parameters(), or {{"x", x}}.
std::string graph_to_dot(const Tensor& loss, const StateDict& names, const GraphToDotOptions& options = {});
/// Without names.
std::string graph_to_dot(const Tensor& loss, const GraphToDotOptions& options = {});

}  // namespace fit
