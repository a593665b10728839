#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "fit/detail/function.hpp"
#include "fit/nn/layer/layer.hpp"

/// A summary of a model's layers, and of the costs of one call.
///
///     std::cout << nn::summary(model, ids);                                      // model(ids)
///     std::cout << nn::summary(model, source, target);                           // model(source, target)
///     std::cout << nn::summary(model, [&] { return model.loss(ids, targets); });
namespace fit::nn {

/// A layer of the model. Parameters, operations and memory include its sublayers.
struct LayerSummary {
  std::string name;  ///< dotted; "" for the model itself
  std::string class_name;
  int depth = 0;                ///< 0 for the model itself
  std::int64_t calls = 0;       ///< observed calls
  std::optional<Shape> output;  ///< of the first call
  std::int64_t parameters = 0;  ///< the number of elements; a shared parameter counts only in its first layer
  double share = 0;             ///< the fraction of all parameters of the model
  std::int64_t flops = 0;
  std::int64_t activation_bytes = 0;
};

/// The costs of one call:
///
/// - flops: 2 m n k for each product of an [m, k] and a [k, n] matrix (matmul, linear, einsum and compositions of
///   them). For attention, 2 (D + Dv) for each head and each pair of a query and a key. Pairs outside causality or the
///   window do not count; masked pairs count. Elementwise operations and softmax, normalisation, activations, dropout
///   and biases do not count.
/// - activation_bytes: the memory that the graph keeps for the backward pass. Each buffer counts once; parameters and
///   buffers of the model do not. In evaluation dropout keeps nothing, and a frozen layer keeps little.
struct ModelSummary {
  std::vector<LayerSummary> layers;  ///< the model, then its sublayers in the order of named_layers()
  std::int64_t trainable_parameters = 0;
  std::int64_t parameter_bytes = 0;
  bool training = true;
  std::vector<std::string> notes;  ///< on shared parameters

  /// The summary of the model itself.
  const LayerSummary& model() const { return layers.front(); }
  /// The layer with this dotted name. Throws Error if there is none.
  const LayerSummary& layer(const std::string& name) const;
  /// A table of the layers down to this depth.
  std::string str(int depth = 1000) const;
};
/// Writes str().
std::ostream& operator<<(std::ostream& out, const ModelSummary& summary);

namespace detail {
ModelSummary summary_of_call(const Layer& model, const std::function<Tensor()>& call);
}

/// Calls model(inputs...), or a function without arguments that calls the model and returns a tensor. The call builds
/// the graph, also under NoGrad. Gradients, buffers, the default generator and the mode of the layers are then as
/// before. Calls on other threads are not observed. Passes on exceptions of the call.
template <class Model, class... Inputs>
ModelSummary summary(const Model& model, const Inputs&... inputs) {
  static_assert(std::is_base_of_v<Layer, Model>, "the model is a layer");
  static_assert(sizeof...(Inputs) > 0, "give the inputs of a call");
  return detail::summary_of_call(model, [&]() -> Tensor {
    if constexpr ((std::is_invocable_v<const Inputs&> && ...)) {
      return (inputs(), ...);
    } else {
      auto result = model(inputs...);
      if constexpr (std::is_convertible_v<decltype(result), Tensor>)
        return result;
      else
        return result.output;
    }
  });
}

}  // namespace fit::nn
