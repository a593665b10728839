#include "fit/nn/feed_forward.hpp"
#include "fit/nn/gpt.hpp"
#include "nn/layer_table.hpp"

namespace fit::test {
namespace {

nn::GPTOptions small_gpt() {
  nn::GPTOptions o;
  o.vocab_size = 7, o.context_length = 5, o.num_layers = 2, o.num_heads = 4, o.d_model = 8, o.dropout = 0.1;
  return o;
}

std::vector<LayerRow> transformer_rows() {
  const auto ids = [] { return std::vector<Tensor>{tensor({{0, 3, 6}, {1, 2, 5}})}; };
  const auto feed_forward = [](nn::Activation a) {
    return layer_row([a] {
             nn::FeedForwardOptions o;
             o.activation = a;
             o.dropout = 0.1;
             return nn::FeedForward(4, 9, o);
           })
        .on({{2, 3, 4}});
  };
  nn::GPTOptions grouped = small_gpt(), plain = small_gpt();
  grouped.num_kv_heads = 2;
  grouped.activation = nn::Activation::swiglu;
  grouped.positions = nn::Positions::sinusoidal;
  plain.bias = false;
  plain.tie_weights = false;
  return {
      feed_forward(nn::Activation::relu),
      feed_forward(nn::Activation::gelu),
      feed_forward(nn::Activation::gelu_tanh),
      feed_forward(nn::Activation::swiglu),
      layer_row([] { return nn::GPTAttention(small_gpt()); }).on({{2, 3, 8}}),
      layer_row([grouped] { return nn::GPTBlock(grouped); }).on({{2, 3, 8}}),
      layer_row([] { return nn::GPT(small_gpt()); }).with(ids),
      layer_row([grouped] { return nn::GPT(grouped); }).with(ids),
      layer_row([plain] { return nn::GPT(plain); }).with(ids),
  };
}
const RegisterLayers transformer(transformer_rows);

}  // namespace
}  // namespace fit::test
