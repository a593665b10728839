#pragma once
#include <string>
#include <vector>

#include "fit/nn/models/gpt.hpp"
#include "fit/nn/weights/weights.hpp"

// Maps of names that several functions and families share. They check no options.
namespace fit::nn {

/// What all models of a family have, by its name in config.json and in GGUF: gpt2, llama, qwen2, qwen3.
GPTOptions family_options(const std::string& family);

/// What `o` would be as a model like GPT-2, with any activation without a gate; and as a Llama or one of its
/// successors: with Mistral's windows, Qwen's biases and norms, Gemma's caps. For expect_options().
GPTOptions as_gpt2(const GPTOptions& o);
GPTOptions as_llama(const GPTOptions& o);

NameMap concatenated(const std::vector<NameMap>& maps);

NameMap nanogpt_map();
NameMap gpt2_map();
/// Llama without its norms.
NameMap llama_map(const GPTOptions& o);
/// The norms of a block before its branches, and those of queries and keys.
NameMap llama_norms();
NameMap qk_norms();
/// HookedTransformer, with all that its options may add.
NameMap transformer_lens_map(std::int64_t heads);
/// What BERT and its like have beside the encoder: the embeddings; layers after the encoder are dropped.
NameMap bert_heads(const std::string& prefix);
/// BERT's positions, segments and layers. RoBERTa's positions begin at 2.
NameMap bert_map(std::int64_t first_position = 0);

}  // namespace fit::nn
