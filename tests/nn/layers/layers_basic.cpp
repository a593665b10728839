#include "fit/nn/layer/init.hpp"
#include "fit/nn/layer/parametrize.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/dropout.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "nn/layers/layer_table.hpp"

namespace fit::test {
namespace {

std::vector<Tensor> ids() { return {tensor({{0, 3}, {6, 3}})}; }

nn::ModuleList<nn::Linear> two_linears() {
  nn::ModuleList<nn::Linear> list;
  list.add(nn::Linear(4, 3));
  list.add(nn::Linear(3, 2));
  return list;
}

std::vector<LayerRow> basic_rows() {
  return {
      layer_row([] { return nn::Linear(4, 3); }).on({{2, 4}}),
      layer_row([] { return nn::Linear(4, 3, false); }).on({{2, 5, 4}}),
      layer_row([] { return nn::Embedding(7, 3); }).with(ids),
      layer_row([] { return nn::Embedding(7, 3, 0); }).with(ids).no_derivative(),
      layer_row([] { return nn::LayerNorm(5); }).on({{2, 3, 5}}),
      layer_row([] { return nn::LayerNorm(5, nn::LayerNormOptions().eps(1e-3).bias(false)); }).on({{3, 5}}),
      layer_row([] { return nn::RMSNorm(5); }).on({{3, 5}}),
      layer_row([] {
        nn::LowRank layer(4, 3, 2, 1.5);
        nn::init::normal_(layer.B);  // zeros would leave A without a gradient
        return layer;
      }).on({{4, 3}}),
      layer_row([] { return nn::ReLU(); }).on({{3, 5}}),
      layer_row([] { return nn::LeakyReLU(0.2); }).on({{3, 5}}),
      layer_row([] { return nn::CELU(0.5); }).on({{3, 5}}),
      layer_row([] { return nn::SELU(); }).on({{3, 5}}),
      layer_row([] { return nn::Mish(); }).on({{3, 5}}),
      layer_row([] { return nn::Softsign(); }).on({{3, 5}}),
      layer_row([] { return nn::Hardtanh(); }).on({{3, 5}}),
      layer_row([] { return nn::Hardsigmoid(); }).on({{3, 5}}),
      layer_row([] { return nn::Hardswish(); }).on({{3, 5}}),
      layer_row([] { return nn::ReLU6(); }).on({{3, 5}}),
      layer_row([] { return nn::Softplus(2); }).on({{3, 5}}),
      layer_row([] { return nn::PReLU(5); }).on({{3, 5}}),
      layer_row([] { return nn::PReLU(); }).on({{3, 5}}),
      layer_row([] { return nn::GELU(); }).on({{3, 5}}),
      layer_row([] { return nn::GELU(Gelu::tanh); }).on({{3, 5}}),
      layer_row([] { return nn::SiLU(); }).on({{3, 5}}),
      layer_row([] { return nn::Tanh(); }).on({{3, 5}}),
      layer_row([] { return nn::Sigmoid(); }).on({{3, 5}}),
      layer_row([] { return nn::Softmax(); }).on({{3, 5}}),
      layer_row([] { return nn::Softmax(0); }).on({{3, 5}}),
      layer_row([] { return nn::LogSoftmax(); }).on({{3, 5}}),
      layer_row([] { return nn::Dropout(0.3); }).on({{3, 5}}),
      layer_row([] {
        return nn::Sequential{nn::Linear(4, 8), nn::Tanh(), nn::Dropout(0.5), nn::Linear(8, 2)};
      }).on({{3, 4}}),
      layer_row(two_linears, [](const auto& list, const auto& in) { return list[1](list[0](in[0])); }).on({{3, 4}}),
  };
}
const RegisterLayers basic(basic_rows);

}  // namespace
}  // namespace fit::test
