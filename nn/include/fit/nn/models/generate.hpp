#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/tensor/random.hpp"
#include "fit/tensor/tensor.hpp"

/// Generates sequences with models, by sampling or by beam search.
namespace fit::nn {

class GPT;
class Transformer;

/// The token ids of a text.
using Tokens = std::vector<std::int64_t>;

/// How the next token is chosen from logits. The options apply in this order.
struct SamplingOptions {
  /// Returns the logits [V] to choose from, for example with -infinity for each token that must not follow `sequence`.
  FIT_OPTION(std::function<Tensor(const Tensor& logits, const Tokens& sequence)>, logits_processor);
  /// Lowers the logits of tokens that the sequence already holds (Keskar et al. 2019). Positive logits are divided by
  /// this, negative logits are multiplied.
  FIT_OPTION(double, repetition_penalty) = 1;
  /// The divisor of the logits; 0 chooses the most likely token.
  FIT_OPTION(double, temperature) = 1;
  /// Draws only from the k most likely tokens; 0: from all.
  FIT_OPTION(std::int64_t, top_k) = 0;
  /// Draws only from the smallest set of most likely tokens whose probabilities sum to this or more (Holtzman et al.
  /// 2020). A sum that falls short by no more than the rounding of the logits counts: 2^-23 (1 + log V), for float64
  /// 2^-52 (1 + log V + V). The set has at least one token.
  FIT_OPTION(double, top_p) = 1;
  /// Draws only from tokens that are at least this times as likely as the most likely one (Nguyen et al. 2025); 0: all.
  FIT_OPTION(double, min_p) = 0;
};

/// Chooses the next token from logits [V] after a sequence. `uniform` is a random number in [0, 1). Throws Error for
/// options or `uniform` out of range (temperature and penalty must be finite), for logits that are NaN or all -inf,
/// also of the logits_processor, and for a sequence with tokens outside 0 … V - 1.
std::int64_t sample_token(const Tensor& logits, const Tokens& sequence, const SamplingOptions& options, double uniform);

/// The behaviour when a text outgrows the model's context. slide: the model reads the last context_length tokens again
/// for each new token, so each token costs a full forward pass.
enum class PastContext { error, slide };

/// How many tokens the assistant of speculative decoding proposed, and how many the model wrote as well.
struct Proposals {
  std::int64_t made = 0, accepted = 0;
};

/// The options of generate().
struct GenerateOptions : SamplingOptions {
  FIT_OPTION(std::int64_t, max_new_tokens) = 20;               ///< The max number of tokens appended to a row.
  FIT_OPTION(PastContext, past_context) = PastContext::error;  ///< When the sequence outgrows the context.
  FIT_OPTION(Tokens, stop_tokens);                             ///< A row ends after one of these.
  FIT_OPTION(Generator*, generator) = nullptr;  ///< The random number generator; the default one if null.
  /// The type of keys and values in the cache; the model's if not given. bfloat16 needs half the memory of float32.
  FIT_OPTION(std::optional<DType>, cache_dtype);
  /// A smaller model with the same vocabulary, for speculative decoding (Leviathan et al. 2023): it proposes tokens,
  /// which the model then reads at once. The text is exactly the one of the mode Reproducible without an assistant,
  /// and comes faster if more than a third of the proposals are right. Null: none.
  FIT_OPTION(const GPT*, assistant_model) = nullptr;
  /// The most tokens that the assistant proposes at a time: one more than were right the last time.
  FIT_OPTION(std::int64_t, num_assistant_tokens) = 4;
  /// With an assistant, whether the text is that of the mode Reproducible. Without the mode, where
  /// two tokens are equally likely but for rounding, it may then be another text of the same probability.
  FIT_OPTION(bool, reproducible) = true;
  FIT_OPTION(Proposals*, proposals) = nullptr;  ///< Where the counts of the assistant's proposals are added.
  /// Called for each new token of a row, in the order in which a row has them. It draws nothing, so the texts are the
  /// same. text::Stream makes whole characters of tokens.
  FIT_OPTION(std::function<void(std::int64_t row, std::int64_t token)>, on_token);
  FIT_INHERITED_OPTIONS(SamplingOptions, logits_processor, repetition_penalty, temperature, top_k, top_p, min_p)
};

/// Continues each prompt by up to max_new_tokens tokens, and returns the new tokens, with the stop token (if any) last.
/// Prompts may differ in length. Rows do not depend on each other: each draws from its own stream. The generator
/// gives each stream a seed. In the mode Reproducible (fit/matmul/reproducible.hpp) texts are the
/// same for any number of prompts in a call, even where two tokens are almost equally likely; prompts of one length are
/// then computed together. Throws Error for an empty prompt, for a stop token that is not in the vocabulary, and if
/// a model has dropout and is in training. Unless past_context is slide, throws Error if the longest prompt plus
/// max_new_tokens exceeds the context length; with an assistant also if it exceeds that of the assistant, and if the
/// vocabularies differ. An Error leaves the generator unchanged.
std::vector<Tokens> generate(const GPT& gpt, const std::vector<Tokens>& prompts, const GenerateOptions& options);

// ---- beam search --------------------------------------------------------------------------------------------------

/// The options of beam_search().
struct BeamOptions {
  FIT_OPTION(std::int64_t, num_beams) = 4;   ///< The number of hypotheses kept at each step.
  FIT_OPTION(std::int64_t, max_length) = 0;  ///< The max length of a result, with the end token.
  FIT_OPTION(std::int64_t, begin) = 0;       ///< The first token of every result.
  FIT_OPTION(std::int64_t, end) = 0;         ///< The token that ends a result.
  /// The score is log probability / length^length_penalty: 0 favours short hypotheses, above 1 long ones.
  FIT_OPTION(double, length_penalty) = 1;
};

/// A result of beam_search().
struct Hypothesis {
  Tokens tokens;           ///< without the begin token; the end token, if any, is the last
  double log_probability;  ///< of all its tokens
  double score;            ///< log_probability / length^length_penalty
};

/// One step of a model. Row i appends tokens[i] to row parents[i] of the previous step. In the first step the parents
/// are 0, 1, … and the tokens are `begin`. Returns logits [rows, V].
using BeamStep = std::function<Tensor(const Tokens& tokens, const std::vector<std::int64_t>& parents)>;

/// Returns up to num_beams hypotheses for each of `batch` items, best first. Throws Error for options out of range,
/// for logits of another shape, and for a row of logits that holds NaN or +inf, or only -inf.
std::vector<std::vector<Hypothesis>> beam_search(const BeamStep& step, std::int64_t batch, const BeamOptions& options);

/// The same for source sequences [B, S] (int64) with a padding mask, as create_padding_mask() makes it.
std::vector<std::vector<Hypothesis>> beam_search(const Transformer& model, const Tensor& source,
                                                 const Tensor& source_mask, const BeamOptions& options);

}  // namespace fit::nn
