#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fit/random.hpp"
#include "fit/tensor.hpp"

/// Sequences from models: sampled, token after token, or searched for.
namespace fit::nn {

class GPT;
class Transformer;

/// The numbers of a text's tokens.
using Tokens = std::vector<std::int64_t>;

/// How the next token is chosen from logits. What is stated applies in this order.
struct SamplingOptions {
  SamplingOptions() {}
  /// Tokens that the sequence has already become less likely: a positive logit is divided by this, a negative one
  /// multiplied (Keskar et al. 2019).
  double repetition_penalty = 1;
  /// What logits are divided by; 0 chooses the likeliest token.
  double temperature = 1;
  /// Only the k likeliest are drawn from; 0: all.
  std::int64_t top_k = 0;
  /// Only the likeliest are drawn from, as many as it takes for their probabilities to sum to this (Holtzman et al.
  /// 2020); always at least one.
  double top_p = 1;
};

/// The next token from logits [V], given the sequence so far. `uniform` is a random number in [0, 1).
/// Throws Error for options or a number out of range (temperature and penalty must be finite), logits that are NaN or
/// all -inf, or a sequence with tokens outside 0 … V - 1.
std::int64_t sample_token(const Tensor& logits, const Tokens& sequence, const SamplingOptions& options, double uniform);

/// What happens where a text grows longer than the model's context. slide: the model sees the last context_length
/// tokens, each time anew, so that every further token costs a whole pass.
enum class PastContext { error, slide };

/// The options of generate().
struct GenerateOptions : SamplingOptions {
  GenerateOptions() {}
  std::int64_t max_new_tokens = 0;
  PastContext past_context = PastContext::error;
  Tokens stop_tokens;              ///< a row ends behind one of these
  Generator* generator = nullptr;  ///< the default one if null
  /// Of the keys and values that are kept: the model's unless given. bfloat16 takes half the room of float32.
  std::optional<DType> cache_dtype;
};

/// What follows each prompt: up to max_new_tokens tokens, the stop token (if one came) last. Prompts may differ in
/// length; what a row becomes does not depend on the others but for the numbers drawn. Throws Error for an empty
/// prompt, if the longest prompt and max_new_tokens together pass the context length (unless past_context is slide),
/// and if the model has dropout and is in training; the generator is then as it was.
std::vector<Tokens> generate(const GPT& gpt, const std::vector<Tokens>& prompts, const GenerateOptions& options);

// ---- beam search --------------------------------------------------------------------------------------------------

/// The options of beam_search().
struct BeamOptions {
  BeamOptions() {}
  std::int64_t num_beams = 4;
  std::int64_t max_length = 0;  ///< of a result, the end token counted
  std::int64_t begin = 0, end = 0;
  /// Hypotheses are compared by log probability / length^this: 0 favours short ones, above 1 long ones.
  double length_penalty = 1;
};

/// A sequence that beam_search() has found.
struct Hypothesis {
  Tokens tokens;           ///< without the begin token; the end token, if it came, is the last
  double log_probability;  ///< of all its tokens
  double score;            ///< log_probability / length^length_penalty
};

/// One step of a model for a number of rows: row i continues what was row parents[i] of the step before with tokens[i].
/// In the first step the parents are 0, 1, … and the tokens are `begin`. Gives logits [rows, V].
using BeamStep = std::function<Tensor(const Tokens& tokens, const std::vector<std::int64_t>& parents)>;

/// For each of `batch` items the num_beams best hypotheses that were found (or as many as there are), best first.
/// Throws Error for options out of range, logits of another shape, and rows of logits that hold NaN or +inf, or are
/// all -inf.
std::vector<std::vector<Hypothesis>> beam_search(const BeamStep& step, std::int64_t batch, const BeamOptions& options);

/// For source sequences [B, S] (int64), with a mask that hides padding, as create_padding_mask() makes it.
std::vector<std::vector<Hypothesis>> beam_search(const Transformer& model, const Tensor& source,
                                                 const Tensor& source_mask, const BeamOptions& options);

}  // namespace fit::nn
