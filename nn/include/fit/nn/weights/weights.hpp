#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/nn/layer/layer.hpp"
#include "fit/tensor/state_dict.hpp"

/// Loads and saves weights under the names of other libraries. A NameMap maps their names to ours, and back.
///
///     nn::TransformerEncoder encoder(options, 6);
///     nn::load_weights(encoder, "encoder.safetensors", nn::torch_names(encoder));  // from PyTorch
///     nn::save_weights("back.safetensors", encoder, nn::torch_names(encoder));     // and back
namespace fit::nn {

class BERT;
class GPT;

// ---- maps ---------------------------------------------------------------------------------------------------------

/// One step of a NameMap. In names, `*` matches one or more characters, also dots. The text of the n-th `*` replaces
/// the n-th `*` of the other side, so both sides have the same number.
struct NameRule {
  enum class Kind { rename, transpose, split, join, drop, alias, refuse, shift, regroup, skip_rows, flatten };
  Kind kind;
  std::vector<std::string> theirs, ours;
  /// Of the parts of a split or join along the first axis; equal parts if empty. The groups of regroup() and flatten().
  /// The number of skip_rows().
  std::vector<std::int64_t> sizes;
  std::string why;  ///< the reason of a refuse()
  double by = 0;    ///< the number of a shift()
};

/// Steps from their names to ours, in order. Each step changes the matching names of the previous step's result, and
/// keeps the others. From ours to theirs, the inverse steps run in reverse order.
using NameMap = std::vector<NameRule>;

/// Renames. All rules throw Error if the two sides differ in their number of `*`.
NameRule rename(const std::string& theirs, const std::string& ours);
/// Renames and transposes a matrix, such as GPT-2's: [in, out] <-> [out, in]; or each matrix of several, [N, in, out].
NameRule transpose(const std::string& theirs, const std::string& ours);
/// Splits their tensor into several of ours along the first axis: in_proj_weight <-> w_q, w_k, w_v.
NameRule split(const std::string& theirs, const std::vector<std::string>& ours,
               const std::vector<std::int64_t>& sizes = {});
/// Concatenates several of their tensors to one of ours.
NameRule join(const std::vector<std::string>& theirs, const std::string& ours,
              const std::vector<std::int64_t>& sizes = {});
/// Renames and adds a number: Gemma's norms multiply by 1 + weight, ours by weight.
NameRule shift(const std::string& theirs, const std::string& ours, double by);
/// Renames and swaps groups of rows: [groups, parts, D] rows of theirs are [parts, groups, D] of ours. GPT-NeoX has the
/// query, key and value of one head side by side: regroup(theirs, ours, num_heads, 3).
NameRule regroup(const std::string& theirs, const std::string& ours, std::int64_t groups, std::int64_t parts);
/// Renames and makes one axis of the first two: [groups, D, ...] <-> [groups D, ...], as heads lie in matrices.
NameRule flatten(const std::string& theirs, const std::string& ours, std::int64_t groups);
/// Renames and removes the first rows: RoBERTa's positions begin at 2. to_theirs() adds them as zeros.
NameRule skip_rows(const std::string& theirs, const std::string& ours, std::int64_t rows);
/// Ignores tensors that we don't need. to_theirs() does not restore them.
NameRule drop(const std::string& theirs);
/// Removes a prefix of their names, such as "bert.", if it is there. to_theirs() adds it to all names.
NameRule prefix(const std::string& theirs);
/// Renames to another name of theirs, for the steps behind: older files have "LayerNorm.gamma" for "LayerNorm.weight".
/// to_theirs() does nothing.
NameRule alias(const std::string& other, const std::string& theirs);
/// Removes a prefix that wrappers add: "module." or "_orig_mod.". to_theirs() does not add it.
NameRule strip(const std::string& theirs);
/// Throws Error with the name and the reason if a tensor matches: we have no counterpart.
NameRule refuse(const std::string& theirs, const std::string& why);

/// The steps with the prefix `before` on every name of both sides: for a sublayer.
NameMap within_names(const std::string& before, const NameMap& map);

/// Their tensors under our names, or ours under theirs. Both throw Error for a shape that a step cannot process, for a
/// join with missing parts, and for a refused name.
StateDict to_ours(const StateDict& theirs, const NameMap& map);
StateDict to_theirs(const StateDict& ours, const NameMap& map);

// ---- ready maps ---------------------------------------------------------------------------------------------------

/// PyTorch's names for a layer and its sublayers: MultiHeadAttention (joint projections, or separate ones with kdim or
/// vdim), TransformerEncoderLayer, TransformerDecoderLayer, their stacks, Transformer. Other layers (Linear, Embedding,
/// LayerNorm, RMSNorm, custom layers) have the same names. Throws Error for options that PyTorch's layer lacks:
/// num_kv_heads, swiglu.
NameMap torch_names(const Layer& layer);
/// Hugging Face's names of GPT-2, for nn::GPT with the default GPTOptions, other sizes and activations. The file may
/// lack the prefix "transformer.", and the tied head. This map and those below throw Error for an option that the other
/// library's models lack, and name it: the weights would have the same names, and other logits.
NameMap gpt2_names(const GPT& gpt);
/// Hugging Face's names of Llama, and of models with the same parts: Mistral, Qwen 2 and Qwen 3. docs/weights.md has
/// the options of such a GPT.
NameMap llama_names(const GPT& gpt);
/// nanoGPT's names, for nn::GPT with Activation::gelu.
NameMap nanogpt_names(const GPT& gpt);
/// TransformerLens's names, for nn::GPT with learned positions and LayerNorm, whose norms are not folded. A state with
/// "unembed.b_U" needs a head with a bias: `GPTOptions().tie_weights(false).head_bias(true)`.
NameMap transformer_lens_names(const GPT& gpt);
/// Hugging Face's names of BERT, for nn::BERT. Drops the layers after the encoder (pooler, heads).
NameMap bert_names(const BERT& bert);

// ---- loading and saving -------------------------------------------------------------------------------------------

/// The tensors that did not fit, under our names.
struct LoadReport {
  std::vector<std::string> missing;     ///< in the layer, but not in the state
  std::vector<std::string> unexpected;  ///< in the state, but not in the layer; or twice in the state
  std::vector<std::string> misfitting;  ///< of another shape or type
};

/// Loads a state with their names. Throws one Error that lists every missing, unexpected and misfitting name (ours),
/// with the most similar right name, and then changes nothing. For tied parameters, one of them suffices.
void load_weights(Layer& layer, const StateDict& theirs, const NameMap& map = {});
/// The same from a .safetensors file, the .safetensors.index.json of a file in several parts, or an .npz. Except for an
/// .npz, only one tensor at a time is in memory beside the layer. Throws FileError for a damaged file, and then changes
/// nothing. If the disk fails after this check, the layer keeps what was read. Throws Error, and loads
/// nothing, for a file of save_weights() with other Layer::saved_options() than the layer's, except dropout.
void load_weights(Layer& layer, const std::string& path, const NameMap& map = {});

/// Loads the tensors that fit, and returns the names of the others, like PyTorch's load_state_dict(strict=False). Wrong
/// shapes are also returned. Throws Error if no tensor fits, as with a prefix before all names.
LoadReport load_fitting_weights(Layer& layer, const StateDict& theirs, const NameMap& map = {});
LoadReport load_fitting_weights(Layer& layer, const std::string& path, const NameMap& map = {});

/// Writes the layer's state under their names, as .npz if the path ends so, else as .safetensors, which also has
/// Layer::saved_options() as strings: "options.num_heads". Without a map, any
/// state is saved. With a map, throws Error for an int8 or parametrised (LoRA) weight, because maps have no names for
/// it: call merge_lora() or remove_parametrization() first.
void save_weights(const std::string& path, const Layer& layer, const NameMap& map = {});

}  // namespace fit::nn
