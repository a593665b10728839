#include "weights/maps.hpp"

namespace fit::nn {

GPTOptions family_options(const std::string& family) {
  if (family == "gpt2") return {};
  return GPTOptions()
      .positions(Positions::rotary)
      .norm(Norm::rms)
      .activation(Activation::swiglu)
      .bias(false)
      .tie_weights(false)
      .qkv_bias(family == "qwen2")
      .qk_norm(family == "qwen3");
}

NameMap concatenated(const std::vector<NameMap>& maps) {
  NameMap all;
  for (const NameMap& map : maps) all.insert(all.end(), map.begin(), map.end());
  return all;
}

// Of nanoGPT and, but for transposed matrices, of GPT-2.
NameMap nanogpt_map() {
  return {
      strip("_orig_mod."),  // of torch.compile
      rename("transformer.wte.weight", "wte.weight"),
      rename("transformer.wpe.weight", "wpe.weight"),
      rename("transformer.h.*", "h.*"),
      rename("transformer.ln_f.*", "ln_f.*"),
      rename("lm_head.weight", "head.weight"),
      drop("h.*.attn.bias"),  // the causal mask, present without flash attention
      rename("h.*.attn.c_attn.*", "h.*.attn.qkv.*"),
      rename("h.*.attn.c_proj.*", "h.*.attn.proj.*"),
      rename("h.*.mlp.c_fc.*", "h.*.mlp.fc.*"),
      rename("h.*.mlp.c_proj.*", "h.*.mlp.proj.*"),
  };
}

NameMap gpt2_map() {
  NameMap map = nanogpt_map();
  map.push_back(drop("h.*.attn.masked_bias"));
  // Hugging Face's Conv1D holds its matrices as [in, out]
  for (const char* matrix : {"h.*.attn.qkv.weight", "h.*.attn.proj.weight", "h.*.mlp.fc.weight", "h.*.mlp.proj.weight"})
    map.push_back(transpose(matrix, matrix));
  return map;
}

NameMap llama_map(const GPTOptions& o) {
  const std::int64_t keys = o.num_kv_heads() * o.head_size();
  NameMap map = {alias("embed_tokens.weight", "model.embed_tokens.weight"),  // of a base model
                 alias("norm.weight", "model.norm.weight"),
                 alias("layers.*", "model.layers.*"),
                 rename("model.embed_tokens.weight", "wte.weight"),
                 rename("model.norm.weight", "ln_f.weight"),
                 rename("lm_head.weight", "head.weight"),
                 rename("model.layers.*", "h.*"),
                 drop("h.*.self_attn.rotary_emb.inv_freq"),
                 rename("h.*.self_attn.o_proj.*", "h.*.attn.proj.*"),
                 rename("h.*.mlp.up_proj.*", "h.*.mlp.fc.*"),
                 rename("h.*.mlp.gate_proj.*", "h.*.mlp.gate.*"),
                 rename("h.*.mlp.down_proj.*", "h.*.mlp.proj.*")};
  for (const std::string kind : {".weight", ".bias"})
    if (kind == ".weight" || o.qkv_bias().value_or(o.bias()))
      map.push_back(join({"h.*.self_attn.q_proj" + kind, "h.*.self_attn.k_proj" + kind, "h.*.self_attn.v_proj" + kind},
                         "h.*.attn.qkv" + kind, {o.num_heads() * o.head_size(), keys, keys}));
  return map;
}

NameMap llama_norms() {
  return {rename("h.*.input_layernorm.weight", "h.*.ln_1.weight"),
          rename("h.*.post_attention_layernorm.weight", "h.*.ln_2.weight")};
}

NameMap qk_norms() {
  return {rename("h.*.self_attn.q_norm.weight", "h.*.attn.q_norm.weight"),
          rename("h.*.self_attn.k_norm.weight", "h.*.attn.k_norm.weight")};
}

// The layers after the encoder are dropped.
NameMap bert_heads(const std::string& prefix) {
  NameMap map = {strip(prefix), alias("*.LayerNorm.gamma", "*.LayerNorm.weight"),  // of files from TensorFlow
                 alias("*.LayerNorm.beta", "*.LayerNorm.bias")};
  for (const char* head :
       {"pooler.*", "cls.*", "classifier.*", "pre_classifier.*", "qa_outputs.*", "lm_head.*", "vocab_transform.*",
        "vocab_layer_norm.*", "vocab_projector.*", "embeddings.position_ids", "embeddings.token_type_ids"})
    map.push_back(drop(head));
  map.push_back(rename("embeddings.word_embeddings.weight", "word.weight"));
  map.push_back(rename("embeddings.LayerNorm.*", "norm.*"));
  return map;
}

NameMap bert_map(std::int64_t first_position) {
  return {first_position > 0 ? skip_rows("embeddings.position_embeddings.weight", "position.weight", first_position)
                             : rename("embeddings.position_embeddings.weight", "position.weight"),
          rename("embeddings.token_type_embeddings.weight", "segment.weight"),
          rename("encoder.layer.*", "encoder.layers.*"),
          rename("encoder.layers.*.attention.self.query.*", "encoder.layers.*.self_attn.w_q.*"),
          rename("encoder.layers.*.attention.self.key.*", "encoder.layers.*.self_attn.w_k.*"),
          rename("encoder.layers.*.attention.self.value.*", "encoder.layers.*.self_attn.w_v.*"),
          rename("encoder.layers.*.attention.output.dense.*", "encoder.layers.*.self_attn.w_o.*"),
          rename("encoder.layers.*.attention.output.LayerNorm.*", "encoder.layers.*.norm1.*"),
          rename("encoder.layers.*.intermediate.dense.*", "encoder.layers.*.mlp.fc.*"),
          rename("encoder.layers.*.output.dense.*", "encoder.layers.*.mlp.proj.*"),
          rename("encoder.layers.*.output.LayerNorm.*", "encoder.layers.*.norm2.*")};
}

}  // namespace fit::nn
