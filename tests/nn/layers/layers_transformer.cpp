#include "fit/nn/layers/feed_forward.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "nn/layers/layer_table.hpp"

namespace fit::test {
namespace {

nn::GPTOptions small_gpt() {
  return nn::GPTOptions().vocab_size(7).context_length(5).num_layers(2).num_heads(4).d_model(8).dropout(0.1);
}

nn::TransformerOptions small_transformer(bool norm_first) {
  return nn::TransformerOptions()
      .d_model(8)
      .num_heads(4)
      .hidden(12)
      .norm_first(norm_first)
      .num_kv_heads(norm_first ? 2 : 0)
      .source_vocab(7)
      .target_vocab(6)
      .max_length(5)
      .num_encoder_layers(2)
      .num_decoder_layers(2);
}

// Softmax ignores what is added to all scores of a row, so the biases of the keys have no gradient.
std::vector<std::string> key_biases(const std::vector<std::string>& attentions) {
  std::vector<std::string> names;
  for (const std::string& a : attentions) names.push_back(a + ".w_k.bias");
  return names;
}

std::vector<LayerRow> encoder_decoder_rows() {
  const auto two = [](const auto& layer, const auto& in) { return layer(in[0], in[1]); };
  const auto ids = [] { return std::vector<Tensor>{tensor({{0, 3, 6}, {1, 2, 5}}), tensor({{5, 3}, {1, 2}})}; };
  std::vector<LayerRow> rows;
  for (const bool first : {false, true}) {
    const nn::TransformerOptions o = small_transformer(first);
    rows.push_back(layer_row([o] { return nn::TransformerEncoderLayer(o); })
                       .on({{2, 3, 8}})
                       .no_gradient(key_biases({"self_attn"})));
    rows.push_back(layer_row([o] { return nn::TransformerDecoderLayer(o); }, two)
                       .on({{2, 3, 8}, {2, 4, 8}})
                       .no_gradient(key_biases({"self_attn", "cross_attn"})));
    rows.push_back(layer_row([o] { return nn::TransformerEncoder(o, 2); })
                       .on({{2, 3, 8}})
                       .no_gradient(key_biases({"layers.0.self_attn", "layers.1.self_attn"})));
    const std::vector<std::string> decoder = {"layers.0.self_attn", "layers.0.cross_attn", "layers.1.self_attn",
                                              "layers.1.cross_attn"};
    rows.push_back(layer_row([o] { return nn::TransformerDecoder(o, 2); }, two)
                       .on({{2, 3, 8}, {2, 4, 8}})
                       .no_gradient(key_biases(decoder)));
    std::vector<std::string> whole = {"encoder.layers.0.self_attn", "encoder.layers.1.self_attn"};
    for (const std::string& name : decoder) whole.push_back("decoder." + name);
    rows.push_back(layer_row([o] { return nn::Transformer(o); }, two).with(ids).no_gradient(key_biases(whole)));
  }
  const auto b = nn::BERTOptions().d_model(8).num_heads(4).hidden(12).vocab_size(7).max_length(5).num_layers(2);
  rows.push_back(layer_row([b] {
                   return nn::BERT(b);
                 }).with([] {
                     return std::vector<Tensor>{tensor({{0, 3, 6}, {1, 2, 5}})};
                   }).no_gradient(key_biases({"encoder.layers.0.self_attn", "encoder.layers.1.self_attn"})));
  return rows;
}
const RegisterLayers encoder_decoder(encoder_decoder_rows);

std::vector<LayerRow> transformer_rows() {
  const auto ids = [] { return std::vector<Tensor>{tensor({{0, 3, 6}, {1, 2, 5}})}; };
  const auto feed_forward = [](nn::Activation a) {
    return layer_row([a] { return nn::FeedForward(4, 9, nn::FeedForwardOptions().activation(a).dropout(0.1)); })
        .on({{2, 3, 4}});
  };
  nn::GPTOptions grouped = small_gpt(), plain = small_gpt();
  grouped.num_kv_heads(2).activation(nn::Activation::swiglu).positions(nn::Positions::sinusoidal);
  plain.bias(false).tie_weights(false);
  nn::GPTOptions today = small_gpt(), gemma = small_gpt(), wide = small_gpt();
  today.positions(nn::Positions::rotary).norm(nn::Norm::rms).qk_norm(true).activation(nn::Activation::squared_relu);
  today.value_embeddings(true).head_gates(true).logit_cap(15).windows({2, 0}).bias(false).num_kv_heads(2);
  gemma.norm_place(nn::NormPlace::both).activation(nn::Activation::geglu).num_kv_heads(1).qkv_bias(false);
  gemma.attention_logit_cap(2);
  wide.head_size(3).norm_place(nn::NormPlace::after).norm(nn::Norm::rms);
  nn::GPTOptions neox = small_gpt(), local = small_gpt();
  neox.positions(nn::Positions::rotary).rotary_features(2).head_size(4).parallel(true).attention_scale(0.3);
  local.positions(nn::Positions::rotary).windows({2, 0}).local_rotary(nn::RotaryTableOptions().base(10));
  local.qk_norm(true).qk_norm_across_heads(true).embedding_scale(3).activation(nn::Activation::geglu_tanh);
  nn::GPTOptions attention = small_gpt(), phi = small_gpt(), folded = small_gpt();
  attention.attention_only(true).norm(nn::Norm::none).head_bias(true).tie_weights(false);
  phi.parallel(true).shared_norm(true);
  folded.norm_weights(false).activation(nn::Activation::solu);
  return {
      feed_forward(nn::Activation::relu),
      feed_forward(nn::Activation::gelu),
      feed_forward(nn::Activation::gelu_tanh),
      feed_forward(nn::Activation::swiglu),
      feed_forward(nn::Activation::geglu),
      feed_forward(nn::Activation::geglu_tanh),
      feed_forward(nn::Activation::squared_relu),
      feed_forward(nn::Activation::solu),
      layer_row([] { return nn::GPTAttention(small_gpt()); }).on({{2, 3, 8}}),
      layer_row([grouped] { return nn::GPTBlock(grouped); }).on({{2, 3, 8}}),
      layer_row([] { return nn::GPT(small_gpt()); }).with(ids),
      layer_row([grouped] { return nn::GPT(grouped); }).with(ids),
      layer_row([plain] { return nn::GPT(plain); }).with(ids),
      layer_row([today] { return nn::GPT(today); }).with(ids),
      layer_row([gemma] { return nn::GPT(gemma); }).with(ids),
      layer_row([wide] { return nn::GPT(wide); }).with(ids),
      layer_row([neox] { return nn::GPT(neox); }).with(ids),
      layer_row([local] { return nn::GPT(local); }).with(ids),
      layer_row([attention] { return nn::GPT(attention); }).with(ids),
      layer_row([phi] { return nn::GPT(phi); }).with(ids),
      layer_row([folded] { return nn::GPT(folded); }).with(ids),
  };
}
const RegisterLayers transformer(transformer_rows);

}  // namespace
}  // namespace fit::test
