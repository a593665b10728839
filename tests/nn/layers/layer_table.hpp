#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fit/nn/layer/layer.hpp"
#include "fit/tensor/random.hpp"
#include "support/callable.hpp"

/// The table of layers: one row a layer (or a form of it), checked in every way that layer_table_test.cpp knows. The
/// rows of a family stand in layers_<family>.cpp:
///
///     namespace fit::test {
///     static std::vector<LayerRow> linear_rows() {
///       return {
///           layer_row([] { return nn::Linear(4, 3); }, [](const auto& l, const auto& in) { return l(in[0]); })
///               .on({{2, 4}}),                                            // the shapes of the inputs: normal numbers
///           layer_row([] { return nn::Embedding(7, 3); }, …).with([] { return std::vector<Tensor>{ids}; }),
///       };
///     }
///     static const RegisterLayers linear(linear_rows);
///     }
///
/// A layer of several outputs gives their sum, or has a row for each. Inputs that are not floating get no gradient.
namespace fit::test {

struct LayerRow {
  /// The shapes of the inputs; they are drawn anew, the same, each time.
  LayerRow on(std::vector<Shape> shapes) && {
    inputs = [shapes] {
      Generator g(11);
      std::vector<Tensor> in;
      for (const Shape& s : shapes) in.push_back(randn(s, float32, g));
      return in;
    };
    return std::move(*this);
  }
  LayerRow with(Callable<std::vector<Tensor>()> f) && { return inputs = std::move(f), std::move(*this); }
  /// Parameters whose gradient is zero, and why that is right.
  LayerRow no_gradient(std::vector<std::string> names) && { return zero = std::move(names), std::move(*this); }
  /// What backward() gives is no derivative, on purpose (a padding row that is not trained).
  LayerRow no_derivative() && { return derivative = false, std::move(*this); }

  Callable<std::shared_ptr<nn::Layer>()> make;
  Callable<Tensor(const nn::Layer&, const std::vector<Tensor>&)> call;
  Callable<std::vector<Tensor>()> inputs;
  std::vector<std::string> zero;
  bool derivative = true;
};

/// `make` gives a new layer by value; `call` applies it to the inputs.
template <class Make, class Call>
LayerRow layer_row(const Make& make, const Call& call) {
  using L = decltype(make());
  LayerRow row;
  row.make = [make] { return std::make_shared<L>(make()); };
  row.call = [call](const nn::Layer& l, const std::vector<Tensor>& in) { return call(static_cast<const L&>(l), in); };
  return row;
}

/// For layers of one input.
template <class Make>
LayerRow layer_row(const Make& make) {
  return layer_row(make, [](const auto& layer, const std::vector<Tensor>& in) { return layer(in[0]); });
}

/// A static one of these adds a family to the table.
struct RegisterLayers {
  explicit RegisterLayers(std::vector<LayerRow> (*family)());
};

}  // namespace fit::test
