#include "hub/family.hpp"
#include "weights/maps.hpp"

// The models of TransformerLens (HookedTransformer): GPTs without norms, without MLPs, or with SoLU. Their config.json
// has the fields of HookedTransformerConfig.
namespace fit::nn::hub {
namespace {

#define FIT_OPTION_OF_GPT(T, name) FIT_HUB_OPTION(GPTOptions, T, name)

struct NormName {
  Json name;
  Norm norm;
  bool weights;
};

// LNPre is a LayerNorm whose weights are part of the matrices behind it. Older files have the key "normalization".
Entry<GPTOptions> norms() {
  static const NormName names[] = {
      {"LN", Norm::layer, true}, {"LNPre", Norm::layer, false}, {"RMS", Norm::rms, true}, {nullptr, Norm::none, true}};
  return {[](const Config& c, GPTOptions& o) {
            const char* const key = c.has("normalization") ? "normalization" : "normalization_type";
            const Json& given = c.value(key);
            for (const NormName& n : names)
              if (n.name == given) return void(o.norm(n.norm).norm_weights(n.weights));
            c.fail(key, " is ", io::shown(given.dump()), ": only LN, LNPre, RMS and null can be computed here");
          },
          [](const GPTOptions& o, Json& json) {
            for (const NormName& n : names)
              if (n.norm == o.norm() && n.weights == o.norm_weights()) json["normalization_type"] = n.name;
          }};
}

// The scores are divided by this number; -1: by the usual one.
Entry<GPTOptions> divisor_of_scores() {
  const char* const key = "attn_scale";
  return {[=](const Config& c, GPTOptions& o) {
            const double divisor = c.number(key, -1);
            if (divisor == -1) return;
            if (!(divisor > 0)) c.fail(key, " is ", divisor, ": it must be positive, or -1");
            o.attention_scale(1 / divisor);
          },
          [=](const GPTOptions& o, Json& json) { json[key] = o.attention_scale() ? 1 / *o.attention_scale() : -1; }};
}

// transformers has no solu_ln.
Entry<GPTOptions> activation_or_solu() {
  const char *const key = "act_fn", *const solu = "solu_ln";
  Entry<GPTOptions> all = activation_named(key, solu, Activation::solu, activation<GPTOptions>(key, "relu"));
  all.write = [=, write = all.write](const GPTOptions& o, Json& json) {
    o.activation() == Activation::solu ? void(json[key] = solu) : write(o, json);
  };
  return all;
}

// What must be as it is here once the options are read.
Entry<GPTOptions> agreements() {
  return {
      [](const Config& c, GPTOptions& o) {
        const std::int64_t out = c.integer("d_vocab_out", -1);
        if (out != -1 && out != o.vocab_size())
          c.fail("d_vocab_out", " is ", out, ", d_vocab ", o.vocab_size(), ": both must be the same");
        if (o.activation() == Activation::solu && !o.attention_only() && (o.norm() != Norm::layer || !o.norm_weights()))
          c.fail("act_fn", " is 'solu_ln': it can be computed with the normalization_type LN alone");
      },
      [](const GPTOptions&, Json&) {}};
}

NameMap names_of(const GPTOptions& o) { return transformer_lens_map(o.num_heads()); }

}  // namespace

std::string model_type(const Config& config) {
  return config.text("model_type", config.has("d_vocab") ? Json(transformer_lens_type) : Json());
}

GPTFamily transformer_lens() {
  return {transformer_lens_type, nullptr, GPTOptions().tie_weights(false).head_bias(true),
          sizes("d_vocab", entry("n_ctx", FIT_OPTION_OF_GPT(std::int64_t, context_length)), "n_layers", "n_heads",
                "d_model",
                {entry_or_null("d_head", FIT_OPTION_OF_GPT(std::int64_t, head_size)),
                 entry_or_null("d_mlp", FIT_OPTION_OF_GPT(std::int64_t, hidden)),
                 norm_eps("eps"),
                 entry("attn_only", FIT_OPTION_OF_GPT(bool, attention_only), false),
                 entry("parallel_attn_mlp", FIT_OPTION_OF_GPT(bool, parallel), false),
                 activation_or_solu(),
                 norms(),
                 divisor_of_scores(),
                 agreements(),
                 fixed<GPTOptions>("positional_embedding_type", "standard"),
                 fixed<GPTOptions>("shortformer_pos", false),
                 fixed<GPTOptions>("attention_dir", "causal"),
                 fixed<GPTOptions>("use_attn_scale", true),
                 fixed<GPTOptions>("use_local_attn", false),
                 fixed<GPTOptions>("final_rms", false),
                 fixed<GPTOptions>("gated_mlp", false),
                 fixed<GPTOptions>("scale_attn_by_inverse_layer_idx", false),
                 fixed<GPTOptions>("use_normalization_before_and_after", false),
                 fixed<GPTOptions>("use_qk_norm", false),
                 fixed<GPTOptions>("tie_word_embeddings", false),
                 fixed<GPTOptions>("n_key_value_heads", nullptr),
                 fixed<GPTOptions>("num_experts", nullptr),
                 fixed<GPTOptions>("output_logits_soft_cap", -1),
                 fixed<GPTOptions>("attn_scores_soft_cap", -1),
                 harmless<GPTOptions>({"seed",
                                       "init_mode",
                                       "init_weights",
                                       "tokenizer_name",
                                       "model_name",
                                       "original_architecture",
                                       "architecture",
                                       "device",
                                       "n_devices",
                                       "checkpoint_index",
                                       "checkpoint_label_type",
                                       "checkpoint_value",
                                       "from_checkpoint",
                                       "use_hook_tokens",
                                       "use_hook_mlp_in",
                                       "use_attn_in",
                                       "use_attn_result",
                                       "use_split_qkv_input",
                                       "n_params",
                                       "default_prepend_bos",
                                       "tokenizer_prepends_bos",
                                       "rotary_base",
                                       "rotary_adjacent_pairs",
                                       "load_in_4bit",
                                       "ungroup_grouped_query_attention",
                                       "trust_remote_code",
                                       "relative_attention_max_distance",
                                       "relative_attention_num_buckets",
                                       "NTK_by_parts_low_freq_factor",
                                       "NTK_by_parts_high_freq_factor",
                                       "NTK_by_parts_factor",
                                       "NTK_original_ctx_len"})}),
          names_of};
}

#undef FIT_OPTION_OF_GPT

}  // namespace fit::nn::hub
