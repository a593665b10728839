#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fit/option.hpp"
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
  /// Tokens that the sequence has already become less likely: a positive logit is divided by this, a negative one
  /// multiplied (Keskar et al. 2019).
  FIT_OPTION(double, repetition_penalty) = 1;
  /// The divisor of the logits; 0 chooses the likeliest token.
  FIT_OPTION(double, temperature) = 1;
  /// Draws from the k likeliest only; 0: from all.
  FIT_OPTION(std::int64_t, top_k) = 0;
  /// Draws from the likeliest only, as many as it takes for their probabilities to sum to this (Holtzman et al. 2020);
  /// always at least one.
  FIT_OPTION(double, top_p) = 1;
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
  FIT_OPTION(std::int64_t, max_new_tokens) = 0;                ///< The most tokens that are appended to a row.
  FIT_OPTION(PastContext, past_context) = PastContext::error;  ///< When the sequence outgrows the context.
  FIT_OPTION(Tokens, stop_tokens);                             ///< A row ends behind one of these.
  FIT_OPTION(Generator*, generator) = nullptr;  ///< The source of random numbers; the default one if null.
  /// The type of the keys and values in the cache; the model's if not given. bfloat16 takes half the memory of float32.
  FIT_OPTION(std::optional<DType>, cache_dtype);
  FIT_INHERITED_OPTIONS(SamplingOptions, repetition_penalty, temperature, top_k, top_p)
};

/// What follows each prompt: up to max_new_tokens tokens, the stop token (if one came) last. Prompts may differ in
/// length; what a row becomes does not depend on the others but for the numbers drawn. Throws Error for an empty
/// prompt, if the longest prompt and max_new_tokens together pass the context length (unless past_context is slide),
/// and if the model has dropout and is in training; the generator is then as it was.
std::vector<Tokens> generate(const GPT& gpt, const std::vector<Tokens>& prompts, const GenerateOptions& options);

// ---- beam search --------------------------------------------------------------------------------------------------

/// The options of beam_search().
struct BeamOptions {
  FIT_OPTION(std::int64_t, num_beams) = 4;   ///< The hypotheses that are followed.
  FIT_OPTION(std::int64_t, max_length) = 0;  ///< The longest result, with the end token.
  FIT_OPTION(std::int64_t, begin) = 0;       ///< The token that a result begins with.
  FIT_OPTION(std::int64_t, end) = 0;         ///< The token that ends a result.
  /// Hypotheses are compared by log probability / length^this: 0 favours short ones, above 1 long ones.
  FIT_OPTION(double, length_penalty) = 1;
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
