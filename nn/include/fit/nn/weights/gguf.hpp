#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/models/gpt.hpp"

/// GGUF files, the models of llama.cpp (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
///
///     nn::save_gguf("names.gguf", gpt, nn::gguf_tokenizer(vocabulary));
///     nn::GGUFModel read = nn::load_gguf("names.gguf");
///     read.model(ids);
namespace fit::text {
class BytePairVocabulary;
class GPT2Vocabulary;
}  // namespace fit::text

namespace fit::nn {

/// How save_gguf() stores matrices. Norms and biases are float32.
enum class GGUFType {
  float32,
  float16,
  bfloat16,
  q8_0,  ///< int8 with a float16 scale for 32 neighbours; a row of another length is float16
};

/// The tokens of a model, as GGUF has them.
struct GGUFTokenizer {
  std::string model;                ///< "gpt2": byte pairs, "llama": SentencePiece; empty: the file has no tokens
  std::string pre;                  ///< the splitting of words, for "gpt2": "gpt-2"
  std::vector<std::string> tokens;  ///< by id; for "gpt2" with GPT-2's characters for bytes
  std::vector<double> scores;       ///< of each token, or empty
  std::vector<std::int64_t> types;  ///< of each token, or empty; 1: normal, 2: unknown, 3: control, 6: a byte
  std::vector<std::string> merges;  ///< "a b", in the order of application
  std::optional<std::int64_t> bos, eos, unknown, padding;  ///< ids
};
/// The tokens of a vocabulary of byte pairs. Splitting is GPT-2's.
GGUFTokenizer gguf_tokenizer(const text::GPT2Vocabulary& vocabulary);
GGUFTokenizer gguf_tokenizer(const text::BytePairVocabulary& vocabulary);

/// The options of save_gguf().
struct SaveGGUFOptions {
  FIT_OPTION(GGUFType, type) = GGUFType::float32;  ///< Of matrices.
  FIT_OPTION(std::string, name);                   ///< general.name; none if empty.
};

/// Writes a GPT as llama.cpp's "gpt2", "llama", "qwen2" (qkv_bias) or "qwen3" (qk_norm). Throws Error that names the
/// option that none of these has, for a tokenizer of another size than vocab_size, and for parametrised or int8
/// weights.
void save_gguf(const std::string& path, const GPT& model, const GGUFTokenizer& tokenizer = {},
               const SaveGGUFOptions& options = {});

/// The options of load_gguf().
struct LoadGGUFOptions {
  /// The max length of a sequence. By default the file's, but at most 4096: tables of positions have this length. A
  /// model with learned positions has the file's.
  FIT_OPTION(std::optional<std::int64_t>, context_length);
};

/// The result of load_gguf().
struct GGUFModel {
  /// float32. nn::quantize_(model, Int8WeightOnlyOptions().group_size(32)) keeps Q8_0 as it is, and
  /// nn::quantize_(model, Int4WeightOnlyOptions()) Q4_0.
  GPT model;
  GGUFTokenizer tokenizer;
  std::string name;  ///< general.name
};

/// Reads such a file: F32, F16, BF16, Q8_0, Q4_0, Q4_K and Q6_K; also with the window of a Mistral or the scaling of
/// Llama 3.1 and 3.2. Throws FileError that names the file and the key or tensor for a damaged file, another
/// architecture, and what a GPT can't compute. Memory is bounded by the file's size.
GGUFModel load_gguf(const std::string& path, const LoadGGUFOptions& options = {});

}  // namespace fit::nn
