#include "fit/nn/attention/attention.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/nn/weights/weights.hpp"
#include "layers/layer_options.hpp"
#include "models/compared_options.hpp"
#include "tensor/check.hpp"
#include "weights/maps.hpp"

namespace fit::nn {
namespace {

constexpr const char* add_bias_kv = "it comes of add_bias_kv: make the layer with that option";

// A layer's own names first. The names of its sublayers follow, with the prefixes that this layer's steps produce.
NameMap own_names(const MultiHeadAttention& a) {
  if (a.options().num_kv_heads().value_or(a.num_heads()) != a.num_heads())
    check::fail("torch_names", "num_kv_heads is ", *a.options().num_kv_heads(), ", num_heads is ", a.num_heads(),
                ": PyTorch's nn.MultiheadAttention has as many heads of keys as of queries");
  if (a.w_q.in_features() != a.d_model())
    check::fail("torch_names", "qdim is ", a.w_q.in_features(), ", d_model is ", a.d_model(),
                ": PyTorch's nn.MultiheadAttention has queries of d_model features");
  NameMap map{rename("out_proj.*", "w_o.*")};
  if (!a.options().add_bias_kv())
    map.push_back(refuse("bias_k", add_bias_kv)), map.push_back(refuse("bias_v", add_bias_kv));
  if (a.options().kdim().value_or(a.d_model()) == a.d_model() &&
      a.options().vdim().value_or(a.d_model()) == a.d_model())
    map.push_back(split("in_proj_weight", {"w_q.weight", "w_k.weight", "w_v.weight"}));
  else
    for (const char* kind : {"q", "k", "v"})
      map.push_back(rename(std::string(kind) + "_proj_weight", std::string("w_") + kind + ".weight"));
  if (a.w_q.has_bias()) map.push_back(split("in_proj_bias", {"w_q.bias", "w_k.bias", "w_v.bias"}));
  return map;
}

NameMap around_feed_forward(const UnaryLayer& layer) {
  const auto* const mlp = dynamic_cast<const FeedForward*>(&layer);
  if (!mlp) check::fail("torch_names", "the feed-forward layer is a ", layer.name(), ": PyTorch's layers have no such");
  if (mlp->gate) check::fail("torch_names", "the feed-forward layer is swiglu: PyTorch's layers have relu and gelu");
  return {rename("linear1.*", "mlp.fc.*"), rename("linear2.*", "mlp.proj.*")};
}

NameMap own_names(const Layer& layer) {
  if (const auto* a = dynamic_cast<const MultiHeadAttention*>(&layer)) return own_names(*a);
  if (const auto* e = dynamic_cast<const TransformerEncoderLayer*>(&layer)) return around_feed_forward(*e->mlp);
  const auto* const d = dynamic_cast<const TransformerDecoderLayer*>(&layer);
  if (!d) return {};
  NameMap map = around_feed_forward(*d->mlp);
  map.push_back(rename("multihead_attn.*", "cross_attn.*"));
  return map;
}

void add(NameMap& all, const Layer& layer, const std::string& path) {
  for (NameRule& rule : within_names(path, own_names(layer))) all.push_back(std::move(rule));
  for (const auto& [name, child] : layer.children()) add(all, *child, path + name + '.');
}

}  // namespace

GPTOptions as_gpt2(const GPTOptions& o) {
  GPTOptions like = with_sizes_of(o);
  if (!is_gated(o.activation()) && o.activation() != Activation::solu) like.activation(o.activation());
  return like;
}

GPTOptions as_llama(const GPTOptions& o) {
  GPTOptions like = with_sizes_of(o).positions(Positions::rotary).norm(Norm::rms);
  RotaryTableOptions rotary = o.rotary();
  if (rotary.features() != o.head_size()) rotary.features(0);
  like.rotary(rotary).activation(is_gated(o.activation()) ? o.activation() : Activation::swiglu);
  like.num_kv_heads(o.num_kv_heads()).head_size(o.head_size()).bias(o.bias()).qkv_bias(o.qkv_bias());
  like.window(o.window()).windows(o.windows()).qk_norm(o.qk_norm());
  return like.logit_cap(o.logit_cap()).attention_logit_cap(o.attention_logit_cap());
}

NameMap torch_names(const Layer& layer) {
  NameMap map;
  add(map, layer, "");
  return map;
}

NameMap gpt2_names(const GPT& gpt) {
  expect_options("gpt2_names", "GPT-2's weights", gpt.options(), as_gpt2(gpt.options()));
  return gpt2_map();
}

NameMap llama_names(const GPT& gpt) {
  expect_options("llama_names", "Llama's weights", gpt.options(), as_llama(gpt.options()));
  return concatenated({llama_map(gpt.options()), llama_norms(), qk_norms()});
}

NameMap nanogpt_names(const GPT& gpt) {
  const GPTOptions& o = gpt.options();
  expect_options("nanogpt_names", "nanoGPT's weights", o,
                 with_sizes_of(o).bias(o.bias()).activation(Activation::gelu).norm_eps(1e-5));
  return nanogpt_map();
}

NameMap transformer_lens_map(std::int64_t heads) {
  NameMap map = {drop("blocks.*.attn.mask"),
                 drop("blocks.*.attn.IGNORE"),
                 rename("embed.W_E", "wte.weight"),
                 rename("pos_embed.W_pos", "wpe.weight"),
                 rename("ln_final.w", "ln_f.weight"),
                 rename("ln_final.b", "ln_f.bias"),
                 transpose("unembed.W_U", "head.weight"),
                 rename("unembed.b_U", "head.bias"),
                 rename("blocks.*", "h.*"),
                 rename("h.*.ln1.w", "h.*.ln_1.weight"),
                 rename("h.*.ln1.b", "h.*.ln_1.bias"),
                 rename("h.*.ln2.w", "h.*.ln_2.weight"),
                 rename("h.*.ln2.b", "h.*.ln_2.bias"),
                 transpose("h.*.mlp.W_in", "h.*.mlp.fc.weight"),
                 rename("h.*.mlp.b_in", "h.*.mlp.fc.bias"),
                 rename("h.*.mlp.ln.w", "h.*.mlp.ln.weight"),
                 rename("h.*.mlp.ln.b", "h.*.mlp.ln.bias"),
                 transpose("h.*.mlp.W_out", "h.*.mlp.proj.weight"),
                 rename("h.*.mlp.b_out", "h.*.mlp.proj.bias"),
                 flatten("h.*.attn.W_O", "h.*.attn.W_O", heads),  // [H, D, C]
                 transpose("h.*.attn.W_O", "h.*.attn.proj.weight"),
                 rename("h.*.attn.b_O", "h.*.attn.proj.bias")};
  for (const char* part : {"Q", "K", "V"}) {
    const std::string weight = std::string("h.*.attn.W_") + part, bias = std::string("h.*.attn.b_") + part;
    map.push_back(transpose(weight, weight));  // [H, C, D]
    map.push_back(flatten(weight, weight, heads));
    map.push_back(flatten(bias, bias, heads));
  }
  map.push_back(join({"h.*.attn.W_Q", "h.*.attn.W_K", "h.*.attn.W_V"}, "h.*.attn.qkv.weight"));
  map.push_back(join({"h.*.attn.b_Q", "h.*.attn.b_K", "h.*.attn.b_V"}, "h.*.attn.qkv.bias"));
  return map;
}

NameMap transformer_lens_names(const GPT& gpt) {
  const GPTOptions& o = gpt.options();
  expect_options("transformer_lens_names", "these weights of TransformerLens", o, as_gpt2(o).head_bias(o.head_bias()));
  NameMap map;
  if (!gpt.head.has_bias())
    map.push_back(refuse("unembed.b_U", "GPTOptions().tie_weights(false).head_bias(true) is needed"));
  return concatenated({map, transformer_lens_map(o.num_heads())});
}

NameMap bert_names(const BERT& bert) {
  const BERTOptions& o = bert.options();
  BERTOptions like;
  like.vocab_size(o.vocab_size()).max_length(o.max_length()).num_segments(o.num_segments()).num_layers(o.num_layers());
  like.num_heads(o.num_heads()).d_model(o.d_model()).hidden(o.hidden()).dropout(o.dropout()).eps(o.eps());
  if (!is_gated(o.activation())) like.activation(o.activation());
  expect_options("bert_names", "BERT's weights", o, like);
  return concatenated({bert_heads("bert."), bert_map()});
}

}  // namespace fit::nn
