#include <cmath>
#include <iterator>

#include "hub/family.hpp"
#include "weights/maps.hpp"

// GPT-2 and its like: LayerNorm, and an MLP without a gate.
namespace fit::nn::hub {
namespace {

#define FIT_OPTION_OF_GPT(T, name) FIT_HUB_OPTION(GPTOptions, T, name)

Entry<GPTOptions> length(const char* key) { return entry(key, FIT_OPTION_OF_GPT(std::int64_t, context_length)); }

// wte, wpe and the final norm, of a model that may be saved without its head.
NameMap gpt_frame(const char* wte, const char* ln_f, const char* head) {
  return {rename(wte, "wte.weight"), rename(std::string(ln_f) + ".*", "ln_f.*"), rename(head, "head.weight")};
}

GPTFamily gpt2() {
  return {
      "gpt2", "GPT2LMHeadModel", family_options("gpt2"),
      sizes("vocab_size", length("n_positions"), "n_layer", "n_head", "n_embd",
            {entry_or_null("n_inner", FIT_OPTION_OF_GPT(std::int64_t, hidden)), norm_eps("layer_norm_epsilon"),
             entry("tie_word_embeddings", FIT_OPTION_OF_GPT(bool, tie_weights), true),
             activation<GPTOptions>("activation_function", "gelu_new"),
             dropout<GPTOptions>({"resid_pdrop", "embd_pdrop", "attn_pdrop"}),
             fixed<GPTOptions>("scale_attn_weights", true), fixed<GPTOptions>("scale_attn_by_inverse_layer_idx", false),
             fixed<GPTOptions>("reorder_and_upcast_attn", false), fixed<GPTOptions>("add_cross_attention", false)}),
      [](const GPTOptions&) { return gpt2_map(); }};
}

GPTFamily gpt_neo() {
  return {
      "gpt_neo", "GPTNeoForCausalLM", GPTOptions().qkv_bias(false).attention_scale(1),
      sizes("vocab_size", length("max_position_embeddings"), "num_layers", "num_heads", "hidden_size",
            {entry_or_null("intermediate_size", FIT_OPTION_OF_GPT(std::int64_t, hidden)),
             norm_eps("layer_norm_epsilon"), entry("tie_word_embeddings", FIT_OPTION_OF_GPT(bool, tie_weights), true),
             activation<GPTOptions>("activation_function", "gelu_new"),
             dropout<GPTOptions>({"resid_dropout", "embed_dropout", "attention_dropout"}), windows_by_type()}),
      [](const GPTOptions&) {
        return concatenated({gpt_frame("transformer.wte.weight", "transformer.ln_f", "lm_head.weight"),
                             {rename("transformer.wpe.weight", "wpe.weight"), rename("transformer.h.*", "h.*"),
                              drop("h.*.attn.attention.bias"),  // the causal mask
                              drop("h.*.attn.attention.masked_bias"),
                              join({"h.*.attn.attention.q_proj.weight", "h.*.attn.attention.k_proj.weight",
                                    "h.*.attn.attention.v_proj.weight"},
                                   "h.*.attn.qkv.weight"),
                              rename("h.*.attn.attention.out_proj.*", "h.*.attn.proj.*"),
                              rename("h.*.mlp.c_fc.*", "h.*.mlp.fc.*"), rename("h.*.mlp.c_proj.*", "h.*.mlp.proj.*")}});
      }};
}

GPTFamily gpt_neox() {
  return {
      "gpt_neox", "GPTNeoXForCausalLM", GPTOptions().positions(Positions::rotary),
      sizes("vocab_size", length("max_position_embeddings"), "num_hidden_layers", "num_attention_heads", "hidden_size",
            {entry("intermediate_size", FIT_OPTION_OF_GPT(std::int64_t, hidden)), norm_eps("layer_norm_eps"),
             entry("tie_word_embeddings", FIT_OPTION_OF_GPT(bool, tie_weights), false),
             entry("use_parallel_residual", FIT_OPTION_OF_GPT(bool, parallel), true),
             activation<GPTOptions>("hidden_act", "gelu"), dropout<GPTOptions>({"hidden_dropout", "attention_dropout"}),
             part_rotary("rotary_pct", 0.25, "rotary_emb_base", 10000), fixed<GPTOptions>("attention_bias", true),
             fixed<GPTOptions>("is_decoder", false)}),
      [](const GPTOptions& o) {
        return concatenated(
            {{alias("embed_in.weight", "gpt_neox.embed_in.weight"),  // of a base model
              alias("final_layer_norm.*", "gpt_neox.final_layer_norm.*")},
             gpt_frame("gpt_neox.embed_in.weight", "gpt_neox.final_layer_norm", "embed_out.weight"),
             {alias("layers.*", "gpt_neox.layers.*"), rename("gpt_neox.layers.*", "h.*"),
              drop("h.*.attention.bias"),  // the causal mask
              drop("h.*.attention.masked_bias"), drop("h.*.attention.rotary_emb.inv_freq"),
              rename("h.*.input_layernorm.*", "h.*.ln_1.*"), rename("h.*.post_attention_layernorm.*", "h.*.ln_2.*"),
              regroup("h.*.attention.query_key_value.*", "h.*.attn.qkv.*", o.num_heads(), 3),
              rename("h.*.attention.dense.*", "h.*.attn.proj.*"), rename("h.*.mlp.dense_h_to_4h.*", "h.*.mlp.fc.*"),
              rename("h.*.mlp.dense_4h_to_h.*", "h.*.mlp.proj.*")}});
      }};
}

// One norm is before both branches.
GPTFamily phi() {
  return {
      "phi", "PhiForCausalLM",
      GPTOptions().positions(Positions::rotary).parallel(true).shared_norm(true).tie_weights(false).head_bias(true),
      sizes("vocab_size", length("max_position_embeddings"), "num_hidden_layers", "num_attention_heads", "hidden_size",
            {entry_or_null("num_key_value_heads", FIT_OPTION_OF_GPT(std::int64_t, num_kv_heads)),
             entry_or_null("intermediate_size", FIT_OPTION_OF_GPT(std::int64_t, hidden)), norm_eps("layer_norm_eps"),
             activation<GPTOptions>("hidden_act", "gelu_new"),
             dropout<GPTOptions>({"resid_pdrop", "embd_pdrop", "attention_dropout"}),
             part_rotary("partial_rotary_factor", 0.5, "rope_theta", 10000),
             fixed<GPTOptions>("tie_word_embeddings", false), fixed<GPTOptions>("qk_layernorm", false)}),
      [](const GPTOptions& o) {
        return concatenated({llama_map(o),
                             {alias("final_layernorm.*", "model.final_layernorm.*")},
                             gpt_frame("model.embed_tokens.weight", "model.final_layernorm", "lm_head.weight"),
                             {rename("lm_head.bias", "head.bias"), rename("h.*.input_layernorm.*", "h.*.ln_1.*"),
                              rename("h.*.self_attn.dense.*", "h.*.attn.proj.*"),
                              rename("h.*.mlp.fc1.*", "h.*.mlp.fc.*"), rename("h.*.mlp.fc2.*", "h.*.mlp.proj.*")}});
      }};
}

// ---- Llama and its like: RMSNorm, rotary positions, and an MLP with a gate ------------------------------------------

GPTOptions llama_options() { return family_options("llama"); }

// `head`: the size of a head in a config without head_dim; 0: d_model / num_heads.
std::vector<Entry<GPTOptions>> llama_entries(std::vector<Entry<GPTOptions>> more, std::int64_t head = 0) {
  more.insert(more.begin(), {entry_or_null("num_key_value_heads", FIT_OPTION_OF_GPT(std::int64_t, num_kv_heads)),
                             entry("intermediate_size", FIT_OPTION_OF_GPT(std::int64_t, hidden)),
                             dropout<GPTOptions>({"attention_dropout"}), head_size(head)});
  return sizes("vocab_size", length("max_position_embeddings"), "num_hidden_layers", "num_attention_heads",
               "hidden_size", more);
}

Entry<GPTOptions> eps(double absent) { return norm_eps("rms_norm_eps", absent); }
Entry<GPTOptions> tied(bool absent) {
  return entry("tie_word_embeddings", FIT_OPTION_OF_GPT(bool, tie_weights), absent);
}

const NameMap after_norms = {rename("h.*.post_attention_layernorm.weight", "h.*.post_ln_1.weight"),
                             rename("h.*.post_feedforward_layernorm.weight", "h.*.post_ln_2.weight")};

NameMap plain_llama_map(const GPTOptions& o) { return concatenated({llama_map(o), llama_norms()}); }
NameMap qk_norm_llama_map(const GPTOptions& o) { return concatenated({plain_llama_map(o), qk_norms()}); }

// Gemma multiplies by 1 + weight.
NameMap gemma_map(const GPTOptions& o) {
  NameMap map = concatenated({llama_map(o), qk_norms()});
  const NameMap both = {rename("h.*.input_layernorm.weight", "h.*.ln_1.weight"),
                        rename("h.*.pre_feedforward_layernorm.weight", "h.*.ln_2.weight")};
  map = o.norm_place() == NormPlace::both ? concatenated({map, both, after_norms}) : concatenated({map, llama_norms()});
  for (const char* norm : {"ln_f.weight", "h.*.ln_1.weight", "h.*.ln_2.weight", "h.*.post_ln_1.weight",
                           "h.*.post_ln_2.weight", "h.*.attn.q_norm.weight", "h.*.attn.k_norm.weight"})
    map.push_back(shift(norm, norm, 1));
  return map;
}

GPTFamily llama() {
  return {"llama", "LlamaForCausalLM", llama_options(),
          llama_entries({eps(1e-6), tied(false), gated_activation("hidden_act", "silu"), rotary(10000),
                         fixed<GPTOptions>("attention_bias", false), fixed<GPTOptions>("mlp_bias", false),
                         fixed<GPTOptions>("rope_interleaved", false), fixed<GPTOptions>("pretraining_tp", 1)}),
          plain_llama_map};
}

GPTFamily mistral() {
  return {
      "mistral", "MistralForCausalLM", llama_options(),
      llama_entries({eps(1e-6), tied(false), gated_activation("hidden_act", "silu"), rotary(10000), one_window(4096)}),
      plain_llama_map};
}

GPTFamily qwen2() {
  return {"qwen2", "Qwen2ForCausalLM", family_options("qwen2"),
          llama_entries({eps(1e-6), tied(false), gated_activation("hidden_act", "silu"), rotary(10000),
                         windows_of_last_layers()}),
          plain_llama_map};
}

GPTFamily qwen3() {
  return {"qwen3", "Qwen3ForCausalLM", family_options("qwen3"),
          llama_entries({eps(1e-6), tied(false), gated_activation("hidden_act", "silu"), rotary(10000),
                         windows_of_last_layers(), fixed<GPTOptions>("attention_bias", false)},
                        128),
          qk_norm_llama_map};
}

GPTFamily olmo2() {
  return {"olmo2", "Olmo2ForCausalLM",
          llama_options().norm_place(NormPlace::after).qk_norm(true).qk_norm_across_heads(true),
          llama_entries({eps(1e-5), tied(false), gated_activation("hidden_act", "silu"), rotary(10000),
                         fixed<GPTOptions>("attention_bias", false)}),
          [](const GPTOptions& o) {
            return concatenated({llama_map(o), after_norms, qk_norms()});
          }};
}

// Queries, keys and values are one matrix there, too, and so are the gate and the rest of the MLP.
GPTFamily phi3() {
  return {"phi3", "Phi3ForCausalLM", llama_options(),
          llama_entries({eps(1e-5), tied(false), gated_activation("hidden_act", "silu"),
                         part_rotary("partial_rotary_factor", 1, "rope_theta", 10000, false), one_window(0),
                         dropout<GPTOptions>({"attention_dropout", "resid_pdrop", "embd_pdrop"}),
                         harmless<GPTOptions>({"original_max_position_embeddings"}),  // of rope_type longrope
                         fixed<GPTOptions>("attention_bias", false)}),
          [](const GPTOptions& o) {
            return concatenated({llama_map(o),
                                 llama_norms(),
                                 {rename("h.*.self_attn.qkv_proj.weight", "h.*.attn.qkv.weight"),
                                  split("h.*.mlp.gate_up_proj.weight", {"h.*.mlp.gate.weight", "h.*.mlp.fc.weight"})}});
          }};
}

// ---- Gemma ----------------------------------------------------------------------------------------------------------

Entry<GPTOptions> scaled_embedding() {
  return {[](const Config&, GPTOptions& o) { o.embedding_scale(std::sqrt(static_cast<double>(o.d_model()))); },
          [](const GPTOptions&, Json&) {}};
}

// The scores are divided by the square root of a number.
Entry<GPTOptions> query_scale() {
  const char* const key = "query_pre_attn_scalar";
  return {[=](const Config& c, GPTOptions& o) {
            const double scalar = c.number(key, 256);
            if (!(scalar > 0)) c.fail(key, " is ", scalar, ": it must be positive");
            o.attention_scale(1 / std::sqrt(scalar));
          },
          [=](const GPTOptions& o, Json& json) {
            const double scale = o.attention_scale().value_or(0);
            const double scalar = 1 / (scale * scale);  // another one than a whole number is not read back
            json[key] = scalar > 0.5 && scalar < 1e9 ? std::llround(scalar) : o.head_size();
          }};
}

// The official releases say "gelu" for its tanh form; transformers reads it so, too.
Entry<GPTOptions> gemma_activation() {
  return activation_named("hidden_act", "gelu", Activation::geglu_tanh,
                          gated_activation("hidden_act", "gelu_pytorch_tanh"));
}

GPTFamily gemma() {
  return {"gemma", "GemmaForCausalLM", llama_options().tie_weights(true).activation(Activation::geglu_tanh),
          llama_entries(
              {eps(1e-6), tied(true), gemma_activation(), rotary(10000), scaled_embedding(),
               fixed<GPTOptions>("attention_bias", false), fixed<GPTOptions>("hidden_activation", "gelu_pytorch_tanh"),
               fixed<GPTOptions>("use_bidirectional_attention", false)},
              256),
          gemma_map};
}

GPTFamily gemma2() {
  return {
      "gemma2", "Gemma2ForCausalLM",
      llama_options().tie_weights(true).activation(Activation::geglu_tanh).norm_place(NormPlace::both),
      llama_entries({eps(1e-6), tied(true), gated_activation("hidden_activation", "gelu_pytorch_tanh"), rotary(10000),
                     scaled_embedding(), query_scale(), windows_by_layer(2),
                     entry_or_null("final_logit_softcapping", FIT_OPTION_OF_GPT(double, logit_cap), 30),
                     entry_or_null("attn_logit_softcapping", FIT_OPTION_OF_GPT(double, attention_logit_cap), 50),
                     fixed<GPTOptions>("attention_bias", false), fixed<GPTOptions>("hidden_act", "gelu_pytorch_tanh"),
                     fixed<GPTOptions>("use_bidirectional_attention", false)},
                    256),
      gemma_map};
}

GPTFamily gemma3() {
  return {
      "gemma3_text", "Gemma3ForCausalLM",
      llama_options().tie_weights(true).activation(Activation::geglu_tanh).norm_place(NormPlace::both).qk_norm(true),
      llama_entries(
          {eps(1e-6), tied(true), gated_activation("hidden_activation", "gelu_pytorch_tanh"), rotary_by_layer(1e6, 1e4),
           scaled_embedding(), query_scale(), windows_by_layer(6),
           entry_or_null("final_logit_softcapping", FIT_OPTION_OF_GPT(double, logit_cap)),
           harmless<GPTOptions>({"attn_logit_softcapping"}),  // transformers does not apply it
           fixed<GPTOptions>("attention_bias", false), fixed<GPTOptions>("use_bidirectional_attention", false)},
          256),
      gemma_map};
}

#undef FIT_OPTION_OF_GPT

}  // namespace

const std::vector<GPTFamily>& gpt_families() {
  static const std::vector<GPTFamily> all = {gpt2(),   gpt_neo(),         gpt_neox(), llama(), mistral(), qwen2(),
                                             qwen3(),  olmo2(),           phi(),      phi3(),  gemma(),   gemma2(),
                                             gemma3(), transformer_lens()};
  return all;
}

const std::vector<std::string>& harmless_keys() {
  static const char* const names[] = {"architectures",
                                      "model_type",
                                      "transformers_version",
                                      "dtype",
                                      "torch_dtype",
                                      "_name_or_path",
                                      "use_cache",
                                      "initializer_range",
                                      "bos_token_id",
                                      "eos_token_id",
                                      "pad_token_id",
                                      "unk_token_id",
                                      "sep_token_id",
                                      "cls_token_id",
                                      "mask_token_id",
                                      "decoder_start_token_id",
                                      "gradient_checkpointing",
                                      "auto_map",
                                      "_attn_implementation",
                                      "attn_implementation",
                                      "_attn_implementation_autoset",
                                      "output_past",
                                      "id2label",
                                      "label2id",
                                      "num_labels",
                                      "problem_type",
                                      "finetuning_task",
                                      "classifier_dropout",
                                      "classifier_activation",
                                      "qa_dropout",
                                      "seq_classif_dropout",
                                      "summary_type",
                                      "summary_use_proj",
                                      "summary_activation",
                                      "summary_first_dropout",
                                      "summary_proj_to_labels",
                                      "task_specific_params",
                                      "tie_weights_",
                                      "_num_labels",
                                      "sinusoidal_pos_embds",
                                      "directionality",
                                      "pooler_fc_size",
                                      "pooler_num_attention_heads",
                                      "pooler_num_fc_layers",
                                      "pooler_size_per_head",
                                      "pooler_type",
                                      "max_sequence_length",
                                      "transformers.js_config",
                                      "n_ctx",
                                      "is_llama_config",
                                      "cache_implementation",
                                      "torchscript",
                                      "tokenizer_class",
                                      "return_dict",
                                      "vocab_file"};
  static const std::vector<std::string> all(std::begin(names), std::end(names));
  return all;
}

}  // namespace fit::nn::hub
