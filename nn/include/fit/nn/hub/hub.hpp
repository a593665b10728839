#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fit/base/error.hpp"
#include "fit/base/option.hpp"
#include "fit/nn/chat/chat_template.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/tokenizer/tokenizer.hpp"
#include "fit/tensor/tensor.hpp"

/// Opens and writes models in the layout of the Hugging Face Hub: a folder with config.json, the weights, and more.
///
///     nn::Pretrained opened = nn::load_pretrained("SmolLM2-135M");
///     Tensor logits = opened.gpt()(opened.tokenizer->encode("Once upon a time").unsqueeze(0));
namespace fit::nn {

class BERT;
class GPT;

/// The options of load_pretrained().
struct PretrainedOptions {
  /// The type of the weights in memory. The files may hold float32, float64, float16 or bfloat16.
  FIT_OPTION(DType, dtype) = float32;
  /// The max length of a sequence, for a GPT; that of config.json if 0. A table of angles has as many rows. Learned
  /// positions have the length of the weights.
  FIT_OPTION(std::int64_t, context_length) = 0;
  /// Keys of config.json and generation_config.json that are read as if they were not there. Give it a key that an
  /// Error names, if you know that the model computes the same without the key. "rope_scaling.new" is a key inside of
  /// another.
  FIT_OPTION(std::vector<std::string>, ignored_keys);
};

/// A part of a folder beside the model. If the folder lacks it, or its file can't be used here, the model opens all the
/// same, and the part throws the reason when it is used.
template <class T>
class PretrainedPart {
 public:
  PretrainedPart() = default;
  PretrainedPart(T value) : value_(std::move(value)) {}
  /// Without a value: `why` is the message of the FileError; `file` the text of the file, if there is one.
  static PretrainedPart without(std::string why, std::string file = {}) {
    PretrainedPart part;
    part.why_ = std::move(why), part.file_ = std::move(file);
    return part;
  }

  /// Whether it is there, and can be used.
  bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }
  /// Throw FileError with the file and the reason if it is not there, or can't be used.
  const T& operator*() const {
    if (!value_) throw FileError(why_);
    return *value_;
  }
  const T* operator->() const { return &**this; }
  /// The text of a file that can't be used, which save_pretrained() writes again; empty if there is none.
  const std::string& file() const { return file_; }

 private:
  std::optional<T> value_;
  std::string why_ = "[Pretrained] this part is not there", file_;
};

/// What load_pretrained() returns.
struct Pretrained {
  std::shared_ptr<Layer> model;  ///< an nn::GPT or an nn::BERT, in evaluation: call model->train() to train it
  std::string family;            ///< model_type of config.json: "llama"
  PretrainedPart<text::Tokenizer> tokenizer;  ///< of tokenizer.json
  PretrainedPart<text::ChatTemplate> chat;    ///< of chat_template.jinja or tokenizer_config.json
  std::string tokenizer_config;               ///< the text of tokenizer_config.json; empty if it is not there
  GenerateOptions generation;                 ///< of generation_config.json, where it says something
  std::optional<std::int64_t> bos_token;      ///< bos_token_id of config.json, and pad_token_id
  std::optional<std::int64_t> pad_token;

  /// The model by its class. Throw Error if it is the other one.
  GPT& gpt() const;
  BERT& bert() const;
};

/// Opens a folder: config.json, and model.safetensors or model.safetensors.index.json with its files; and if they are
/// there, tokenizer.json, the chat template, and generation_config.json.
///
/// The families are, by model_type: gpt2, gpt_neo, gpt_neox, llama, mistral, qwen2, qwen3, olmo2, phi, phi3,
/// gemma, gemma2, gemma3_text, which are an nn::GPT; bert, roberta, distilbert, which are an nn::BERT, without the
/// layers after the encoder. The logits are those of transformers, but for rounding. A config.json without a model_type
/// is that of TransformerLens, with its models of attention alone and of SoLU: family is then "transformer_lens".
/// A file of a base model (LlamaModel), which has no head, opens with the table of tokens as its head. A head in the
/// file that differs from the table is not tied to it, whatever tie_word_embeddings says.
///
/// Throws FileError, with the file and the key, for a damaged file and for what config.json asks for and no model here
/// computes. A key that is not known, and is not null, false, 0 or empty, is such an Error too. The tokenizer and the
/// chat template throw their FileError when they are used. Weights that are in the file as in the model are a mapping
/// of the file, read at their first use; of others, one tensor at a time is in memory beside the model. So no other
/// program may change the file in place while the model lives.
Pretrained load_pretrained(const std::string& folder, const PretrainedOptions& options = {});

/// Writes a model as load_pretrained() and transformers read it: config.json, model.safetensors, and tokenizer.json if
/// a tokenizer is given. The folder is made if it is not there. Throws Error, with the name of the option, for a model
/// whose options no family of transformers has; for a tokenizer with more tokens than the model; and for int8 and
/// parametrised (LoRA) weights, as save_weights() does. Nothing is written then.
void save_pretrained(const std::string& folder, const GPT& model, const text::Tokenizer* tokenizer = nullptr);
void save_pretrained(const std::string& folder, const BERT& model, const text::Tokenizer* tokenizer = nullptr);
/// The same with the tokenizer, the chat template, the options for generation and the ids of tokens that were opened
/// with the model.
void save_pretrained(const std::string& folder, const Pretrained& opened);

/// Adds the LoRA adapter of a folder in peft's layout, adapter_config.json and adapter_model.safetensors, to the model,
/// as load_lora_state_dict() does: merge_lora() or lora_state_dict() can follow. One layer here may be several there
/// (qkv: q_proj, k_proj, v_proj). Its rank is then the sum of theirs, and the result is the same. Throws FileError,
/// with the file and the key or tensor, for a damaged folder, and for what is not LoRA alone; nothing changes then.
void load_adapter(Pretrained& opened, const std::string& folder);
/// Writes the adapters of add_lora() or load_adapter() as peft reads them for the model of save_pretrained(). Throws
/// Error if there are none.
void save_adapter(const std::string& folder, const Pretrained& opened);

}  // namespace fit::nn
