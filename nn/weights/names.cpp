#include "fit/nn/attention/attention.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/nn/weights/weights.hpp"
#include "layers/layer_options.hpp"
#include "models/gpt_options.hpp"
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

void check_options(const char* op, const char* models, const std::vector<Needed>& all) {
  for (const Needed& needed : all)
    if (!needed.fits)
      check::fail(op, needed.option, " differs: ", models, " need ", needed.value, "; make the model with it");
}

namespace {

// What no model of these libraries has.
void check_parts(const char* op, const char* models, const GPTOptions& o) {
  check_options(op, models,
                {{o.norm_place() == NormPlace::before, "norm_place", "NormPlace::before"},
                 {!o.head_gates(), "head_gates", "no gates of heads"},
                 {!o.parallel(), "parallel", "one branch after the other, false"},
                 {!o.attention_only(), "attention_only", "an MLP in each block, false"},
                 {!o.head_bias(), "head_bias", "no bias of the head, false"},
                 {o.norm_weights(), "norm_weights", "weights of norms, true"},
                 {o.activation() != Activation::solu, "activation", "another one than solu"},
                 {o.rotary_features() == 0, "rotary_features", "all features of a head, 0"},
                 {!o.local_rotary(), "local_rotary", "one table for all layers"},
                 {!o.qk_norm_across_heads(), "qk_norm_across_heads", "no norm across heads, false"},
                 {o.embedding_scale() == 1, "embedding_scale", "none, 1"},
                 {!o.attention_scale(), "attention_scale", "the usual one, 1 / sqrt(head_size)"},
                 {!o.value_embeddings(), "value_embeddings", "no embeddings of values"}});
}

void check_gpt2(const char* op, const char* models, const GPTOptions& o) {
  check_parts(op, models, o);
  check_options(op, models,
                {{o.positions() == Positions::learned, "positions", "Positions::learned"},
                 {o.norm() == Norm::layer, "norm", "Norm::layer"},
                 {o.num_kv_heads() == o.num_heads(), "num_kv_heads", "as many heads of keys as of queries"},
                 {o.head_size() * o.num_heads() == o.d_model(), "head_size", "d_model / num_heads"},
                 {o.qkv_bias().value_or(o.bias()) == o.bias(), "qkv_bias", "the value of bias"},
                 {!is_gated(o.activation()), "activation", "one without a gate"},
                 {!o.qk_norm(), "qk_norm", "no norms of queries and keys"},
                 {!has_window(o), "window", "all keys, 0"},
                 {o.logit_cap() == 0, "logit_cap", "none, 0"},
                 {o.attention_logit_cap() == 0, "attention_logit_cap", "none, 0"}});
}

}  // namespace

NameMap torch_names(const Layer& layer) {
  NameMap map;
  add(map, layer, "");
  return map;
}

NameMap gpt2_names(const GPT& gpt) {
  check_gpt2("gpt2_names", "GPT-2's weights", gpt.options());
  check_options("gpt2_names", "GPT-2's weights", {{gpt.options().bias(), "bias", "biases, true"}});
  return gpt2_map();
}

NameMap llama_names(const GPT& gpt) {
  const GPTOptions& o = gpt.options();
  const std::int64_t rotated = o.rotary().features();
  check_parts("llama_names", "Llama's weights", o);
  check_options("llama_names", "Llama's weights",
                {{o.positions() == Positions::rotary, "positions", "Positions::rotary"},
                 {o.rotary_layout() == RotaryLayout::half_split, "rotary_layout", "RotaryLayout::half_split"},
                 {rotated == 0 || rotated == o.head_size(), "rotary.features", "all features of a head, 0"},
                 {o.norm() == Norm::rms, "norm", "Norm::rms"},
                 {is_gated(o.activation()), "activation", "Activation::swiglu"}});
  return concatenated({llama_map(o), llama_norms(), qk_norms()});
}

NameMap nanogpt_names(const GPT& gpt) {
  check_gpt2("nanogpt_names", "nanoGPT's weights", gpt.options());
  check_options("nanogpt_names", "nanoGPT's weights",
                {{gpt.options().activation() == Activation::gelu, "activation", "Activation::gelu"},
                 {gpt.options().norm_eps() == 1e-5, "norm_eps", "1e-5"}});
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
  check_gpt2("transformer_lens_names", "these weights of TransformerLens", gpt.options());
  check_options("transformer_lens_names", "these weights of TransformerLens",
                {{gpt.options().bias(), "bias", "biases, true"}});
  NameMap map;
  if (!gpt.head.has_bias())
    map.push_back(refuse("unembed.b_U", "GPTOptions().tie_weights(false).head_bias(true) is needed"));
  return concatenated({map, transformer_lens_map(gpt.options().num_heads())});
}

NameMap bert_names(const BERT& bert) {
  const BERTOptions& o = bert.options();
  check_options("bert_names", "BERT's weights",
                {{!o.norm_first(), "norm_first", "norms after the sums, false"},
                 {!o.final_norm().value_or(o.norm_first()), "final_norm", "none, false"},
                 {o.bias(), "bias", "biases, true"},
                 {with_sizes(o).num_kv_heads() == o.num_heads(), "num_kv_heads", "as many heads of keys as of queries"},
                 {!is_gated(o.activation()), "activation", "one without a gate"}});
  return concatenated({bert_heads("bert."), bert_map()});
}

}  // namespace fit::nn
