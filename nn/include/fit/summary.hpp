#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "fit/attention.hpp"
#include "fit/nn/layer.hpp"

/// What a model is made of, and what a call of it takes.
///
///     std::cout << nn::summary(model, ids);                                      // model(ids)
///     std::cout << nn::summary(model, source, target);                           // model(source, target)
///     std::cout << nn::summary(model, [&] { return model.loss(ids, targets); });
namespace fit::nn {

/// A layer of the model. What it says of parameters, operations and memory is of this layer and those below it.
struct LayerSummary {
  std::string name;  ///< dotted; "" for the model itself
  std::string class_name;
  int depth = 0;                ///< 0 for the model itself
  std::int64_t calls = 0;       ///< that were seen; a class of your own is seen if it uses nn::within() (layer.hpp)
  std::optional<Shape> output;  ///< of the first call
  std::int64_t parameters = 0;  ///< numbers in them; one that several layers share counts in the first alone
  double share = 0;             ///< of all parameters of the model
  std::int64_t flops = 0;
  std::int64_t activation_bytes = 0;
};

/// Of one call:
///
/// - flops: 2 m n k for each product of an [m, k] and a [k, n] matrix (matmul, linear, einsum and what is made of
/// them);
///   for attention 2 (D + Dv) for each head and each pair of a query and a key, without those pairs that causality or
///   the window hide. Those that a mask hides do count. What goes element by element does not: softmax, normalisation,
///   activations, dropout, biases.
/// - activation_bytes: what the graph keeps for the backward pass, each buffer once, without parameters and buffers of
///   the model. It follows the layers' state: dropout keeps nothing in evaluation, and a frozen layer little.
struct ModelSummary {
  std::vector<LayerSummary> layers;  ///< the model first, then those below in the order of named_layers()
  std::int64_t trainable_parameters = 0;
  std::int64_t parameter_bytes = 0;
  bool training = true;
  std::vector<std::string> notes;  ///< on parameters that are shared

  /// That of the whole model.
  const LayerSummary& model() const { return layers.front(); }
  /// The layer of this dotted name. Throws Error if there is none.
  const LayerSummary& layer(const std::string& name) const;
  /// A table of the layers down to this depth.
  std::string str(int depth = 1000) const;
};
/// Writes str().
std::ostream& operator<<(std::ostream& out, const ModelSummary& summary);

namespace detail {
ModelSummary summary_of_call(const Layer& model, const std::function<Tensor()>& call);
}

/// Calls model(inputs...), or a function without arguments that calls the model and gives a tensor. The call records
/// the graph, whatever the state of this thread. Afterwards all is as before: gradients, the default generator,
/// training or evaluation. What other threads do is not seen. Throws what the call throws.
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
