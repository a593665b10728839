#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/convolution.hpp"
#include "fit/nn/layers/recurrent.hpp"
#include "nn/layers/layer_table.hpp"

namespace fit::test {
namespace {

nn::RecurrentOptions deep() { return nn::RecurrentOptions().num_layers(2).bidirectional(); }

std::vector<LayerRow> window_layers() {
  return {
      layer_row([] { return nn::Conv1d(4, 2, 3); }).on({{2, 4, 5}}),
      layer_row([] { return nn::Conv2d(2, 4, 3, ConvOptions().stride(2).padding(1).groups(2)); }).on({{2, 2, 5, 4}}),
      layer_row([] { return nn::MaxPool1d(2); }).on({{2, 3, 6}}),
      layer_row([] {
        return nn::MaxPool2d(3, PoolOptions().stride({1, 2}).padding(1));
      }).on({{1, 2, 4, 5}}),
      layer_row([] { return nn::AvgPool1d(2, PoolOptions().stride(1)); }).on({{2, 3, 5}}),
      layer_row([] {
        return nn::AvgPool2d({2, 1});
      }).on({{1, 2, 4, 5}}),
      layer_row([] { return nn::GroupNorm(2, 4); }).on({{3, 4, 2}}),
      layer_row([] { return nn::BatchNorm(3); }).on({{4, 3, 2}}),
      layer_row([] { return nn::LSTM(3, 2); }).on({{2, 4, 3}}),
      layer_row([] { return nn::GRU(3, 2); }).on({{2, 4, 3}}),
      layer_row([] { return nn::LSTM(3, 2, deep()); }).on({{2, 4, 3}}),
      layer_row([] { return nn::GRU(3, 2, deep()); }).on({{2, 4, 3}}),
      layer_row([] { return nn::ELU(0.5); }).on({{3, 5}}),
      layer_row([] { return nn::Softplus(); }).on({{3, 5}}),
      layer_row([] { return nn::LogSigmoid(); }).on({{3, 5}}),
      layer_row([] { return nn::Identity(); }).on({{3, 5}}),
      layer_row([] { return nn::Flatten(); }).on({{3, 5, 2}}),
      layer_row([] { return nn::Lambda([](const Tensor& x) { return x * x; }); }).on({{3, 5}}),
      layer_row([] { return nn::ConvTranspose1d(4, 2, 3); }).on({{2, 4, 5}}),
      layer_row([] {
        return nn::ConvTranspose2d(4, 2, {3, 2}, ConvOptions().stride(2).output_padding(1).groups(2));
      }).on({{2, 4, 3, 4}}),
      layer_row([] {
        return nn::Upsample(InterpolateOptions().scale_factor(1.5).mode(Interpolation::linear));
      }).on({{1, 2, 4, 3}}),
      layer_row([] { return nn::PixelShuffle(2); }).on({{1, 4, 2, 3}}),
      layer_row([] { return nn::PixelUnshuffle(2); }).on({{1, 2, 2, 4}}),
      layer_row([] { return nn::RNN(3, 2); }).on({{2, 4, 3}}),
      layer_row([] { return nn::RNN(3, 2, deep()); }).on({{2, 4, 3}}),
  };
}
const RegisterLayers window_rows(window_layers);

}  // namespace
}  // namespace fit::test
