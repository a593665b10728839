#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/nn/layer.hpp"
#include "fit/state_dict.hpp"

/// Weights of models that others have trained, and of ours for others: maps from their names to ours, and back.
///
///     nn::TransformerEncoder encoder(options, 6);
///     nn::load_weights(encoder, "encoder.safetensors", nn::torch_names(encoder));  // from PyTorch
///     nn::save_weights("back.safetensors", encoder, nn::torch_names(encoder));     // and back
namespace fit::nn {

// ---- maps ---------------------------------------------------------------------------------------------------------

/// One step of a NameMap. In names, `*` stands for one or more letters, dots too; those that the n-th `*` stood for are
/// put in place of the n-th of the other side, so both sides have as many.
struct NameRule {
  enum class Kind { rename, transpose, split, join, drop, strip, refuse };
  Kind kind;
  std::vector<std::string> theirs, ours;
  std::vector<std::int64_t> sizes;  ///< of the parts of a split or join along the first axis; equal ones if empty
  std::string why;                  ///< a name is refused
};

/// Steps from their names to ours, one after the other, each of which takes the names that it matches as the one before
/// it left them, and lets the others pass. From ours to theirs, their opposites are taken in the opposite order.
using NameMap = std::vector<NameRule>;

/// Throw Error if the two sides have not the same number of `*`.
NameRule rename(const std::string& theirs, const std::string& ours);
/// A matrix that has rows where ours has columns, as GPT-2's: [in, out] <-> [out, in].
NameRule transpose(const std::string& theirs, const std::string& ours);
/// One tensor of theirs is several of ours, one below the other along the first axis: in_proj_weight <-> w_q, w_k, w_v.
NameRule split(const std::string& theirs, const std::vector<std::string>& ours,
               const std::vector<std::int64_t>& sizes = {});
/// Several of theirs are one of ours.
NameRule join(const std::vector<std::string>& theirs, const std::string& ours,
              const std::vector<std::int64_t>& sizes = {});
/// What they save and we don't need: not taken, and not given back.
NameRule drop(const std::string& theirs);
/// What all of their names begin with: "bert.". Taken away where it stands, and put before all names on the way back.
NameRule prefix(const std::string& theirs);
/// The same without the way back: "module." and "_orig_mod.", which wrappers leave behind.
NameRule strip(const std::string& theirs);
/// What we have no counterpart for: throws Error with the name and the reason if it is there.
NameRule refuse(const std::string& theirs, const std::string& why);

/// The steps with `before` in front of every name, on both sides: for a layer that is a part of another.
NameMap within_names(const std::string& before, const NameMap& map);

/// Their tensors under our names, or ours under theirs. Both throw Error for a tensor whose shape a step can't take,
/// for parts of which some are missing, and for a name that is refused.
StateDict to_ours(const StateDict& theirs, const NameMap& map);
StateDict to_theirs(const StateDict& ours, const NameMap& map);

// ---- maps that are there ------------------------------------------------------------------------------------------

/// PyTorch's names of a layer and of those below: of MultiHeadAttention (joint projections, or separate ones with kdim
/// or vdim), TransformerEncoderLayer, TransformerDecoderLayer, their stacks, Transformer. Others (Linear, Embedding,
/// LayerNorm, RMSNorm, one's own) have the same names. Throws Error where PyTorch's layer has no counterpart:
/// num_kv_heads, swiglu.
NameMap torch_names(const Layer& layer);
/// Hugging Face's names of GPT-2, for nn::GPT with GPTOptions' defaults. The file may leave out "transformer." before
/// all names, and the head, which is tied.
NameMap gpt2_names();
/// nanoGPT's, for nn::GPT with Activation::gelu.
NameMap nanogpt_names();
/// Hugging Face's names of BERT, for nn::BERT. What stands behind the encoder's output (the pooler, heads) is dropped.
NameMap bert_names();

// ---- loading and saving -------------------------------------------------------------------------------------------

/// What did not fit, under our names.
struct LoadReport {
  std::vector<std::string> missing;     ///< the layer has it, the state has not
  std::vector<std::string> unexpected;  ///< the state has it, the layer has not; or it is there twice
  std::vector<std::string> misfitting;  ///< of another shape or type
};

/// Loads a state that has their names. As load_state_dict(), it throws one Error that lists every missing, unexpected
/// and misfitting name (ours), pairs wrong names with the most similar right ones, and then has changed nothing. Of
/// tied parameters one is enough.
void load_weights(Layer& layer, const StateDict& theirs, const NameMap& map = {});
/// The same from a .safetensors file, the .safetensors.index.json of one in several parts, or an .npz. Of the former
/// two one tensor at a time is in memory, beside the layer. FileError: the file is damaged, and nothing has been
/// changed; but a disk that fails after the file was found to be whole leaves the layer with what had been read.
void load_weights(Layer& layer, const std::string& path, const NameMap& map = {});

/// Loads what fits, and returns what does not: PyTorch's load_state_dict(strict=False), but that a wrong shape is
/// returned, too.
LoadReport load_fitting_weights(Layer& layer, const StateDict& theirs, const NameMap& map = {});
LoadReport load_fitting_weights(Layer& layer, const std::string& path, const NameMap& map = {});

/// Writes the layer's state under their names as .safetensors, or as .npz if the path ends so. Throws Error if a map is
/// given and a weight is int8 or parametrised (LoRA), for which maps have no names. merge_lora() or
/// remove_parametrization() makes it a weight again. Without a map it is saved as it is.
void save_weights(const std::string& path, const Layer& layer, const NameMap& map = {});

}  // namespace fit::nn
