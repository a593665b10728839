#include "fit/nn/attention/attention.hpp"
#include "fit/nn/attention/single_head.hpp"
#include "nn/layers/layer_table.hpp"

namespace fit::test {
namespace {

std::vector<LayerRow> attention_rows() {
  const auto qkv = [](const auto& layer, const auto& in) { return layer(in[0], in[1], in[2]); };
  const auto narrow = nn::MultiHeadAttentionOptions().bias(false).kdim(6).vdim(3);
  // Softmax ignores what is added to all scores of a row, so the bias of the keys has no gradient.
  return {
      layer_row([] { return nn::ScaledDotProductAttention(); }, qkv).on({{2, 3, 4}, {2, 5, 4}, {2, 5, 6}}),
      layer_row([] { return nn::MultiHeadAttention(8, 2); }, qkv)
          .on({{2, 3, 8}, {2, 5, 8}, {2, 5, 8}})
          .no_gradient({"w_k.bias"}),
      layer_row([narrow] { return nn::MultiHeadAttention(8, 4, narrow); }, qkv).on({{2, 3, 8}, {2, 5, 6}, {2, 5, 3}}),
      layer_row([] { return nn::SelfAttention(8, 2); }).on({{2, 5, 8}}).no_gradient({"multihead_attn.w_k.bias"}),
      layer_row([] { return nn::CausalSelfAttention(8, 2); }).on({{2, 5, 8}}).no_gradient({"multihead_attn.w_k.bias"}),
      layer_row([] { return nn::CrossAttention(8, 2); },
                [](const auto& layer, const auto& in) { return layer(in[0], in[1]); })
          .on({{2, 3, 8}, {2, 5, 8}})
          .no_gradient({"multihead_attn.w_k.bias"}),
      layer_row([] { return nn::BareSingleHeadAttention(4, 3); }).on({{5, 4}}),
      layer_row([] { return nn::SingleHeadAttention(4, 3); }).on({{2, 5, 4}}).no_gradient({"W_key.bias"}),
      layer_row([] { return nn::CausalAttention(4, 3, 6, 0.2); }).on({{2, 5, 4}}),
      layer_row([] { return nn::MultiHeadAttentionWrapper(4, 3, 6, 0.2, 2); }).on({{2, 6, 4}}),
  };
}
const RegisterLayers attention(attention_rows);

}  // namespace
}  // namespace fit::test
