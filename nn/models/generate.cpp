#include "fit/nn/models/generate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "common/functions.hpp"
#include "common/rollback.hpp"
#include "fit/matmul/reproducible.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/ops/ops.hpp"
#include "kernels/rows/rows_softmax.hpp"
#include "models/evaluation.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

void check_sampling(const char* op, const SamplingOptions& o) {
  if (!(o.repetition_penalty() > 0 && std::isfinite(o.repetition_penalty())))
    check::fail(op, "repetition_penalty is ", o.repetition_penalty(), ": it must be positive and finite");
  if (!(o.temperature() >= 0 && std::isfinite(o.temperature())))
    check::fail(op, "temperature is ", o.temperature(), ": it must be finite and not negative");
  check::not_negative(op, "top_k", o.top_k());
  if (!(o.top_p() > 0 && o.top_p() <= 1)) check::fail(op, "top_p is ", o.top_p(), ": it must be in 0 … 1, above 0");
  if (!(o.min_p() >= 0 && o.min_p() <= 1)) check::fail(op, "min_p is ", o.min_p(), ": it must be in 0 … 1");
}

// Finite logits stay finite, and infinite ones stay infinite.
double penalized(double logit, double penalty) {
  if (!std::isfinite(logit)) return logit;
  constexpr double largest = std::numeric_limits<double>::max();
  return std::clamp(logit > 0 ? logit / penalty : logit * penalty, -largest, largest);
}

std::vector<double> penalized(const Tensor& logits, const Tokens& sequence, double penalty) {
  std::vector<double> x = logits.to(float64).to_vector<double>();
  if (std::any_of(x.begin(), x.end(), [](double v) { return std::isnan(v); }))
    check::fail("sample_token",
                "a logit is NaN: look into the weights and the logits_processor; DetectAnomaly names the "
                "first operation that makes one");
  std::vector<bool> seen(x.size());
  for (const std::int64_t token : sequence) {
    const auto i = static_cast<std::size_t>(token);
    if (token < 0 || i >= x.size())
      check::fail("sample_token", "the sequence has the token ", token, ": it must be in 0 … ", x.size() - 1);
    if (!seen[i]) x[i] = penalized(x[i], penalty);
    seen[i] = true;
  }
  return x;
}

// The error of a sum of some of V probabilities p that rounded logits cause. log p is off by u |log p|, so the sum by
// at most u times the entropy, which is at most log V; the sum of V numbers by V units of double.
double rounding_of_sums(DType logits, std::size_t V) {
  const double u = logits == float64 ? 0x1p-52 : 0x1p-23, count = static_cast<double>(V);
  return u * (1 + number::log(count)) + 0x1p-52 * count;
}

// Tokens to draw from, with weights whose sum is `total`; the weight of the most likely token is 1.
struct Candidates {
  Tokens tokens;
  std::vector<double> weights;
  double total;

  std::int64_t drawn(double uniform) const {
    double left = uniform * total;
    std::size_t last = 0;  // with rounding, `left` may stay positive after the last possible token
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      last = i;
      if ((left -= weights[i]) < 0) break;
    }
    return tokens[last];
  }
};

// The candidates of logits x, whose greatest is `most`. They were of type `dtype`.
Candidates candidates(const std::vector<double>& x, double most, const SamplingOptions& o, DType dtype) {
  Tokens order(x.size());
  std::iota(order.begin(), order.end(), 0);
  // The most likely token first; of equals the lower id.
  const auto likelier = [&](std::int64_t a, std::int64_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; };
  if (o.top_k() > 0 && o.top_k() < static_cast<std::int64_t>(order.size())) {
    std::nth_element(order.begin(), order.begin() + o.top_k(), order.end(), likelier);
    order.resize(static_cast<std::size_t>(o.top_k()));
  }
  if (o.top_p() < 1) std::sort(order.begin(), order.end(), likelier);
  std::vector<double> weights;
  const auto exp = kernels::softmax_rows<double>().exp;
  for (const std::int64_t token : order)  // the comparison avoids inf - inf
    weights.push_back(x[token] == most ? 1 : exp((x[token] - most) / o.temperature()));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (o.top_p() < 1) {
    const double enough = (o.top_p() - rounding_of_sums(dtype, weights.size())) * total;
    double kept = weights[0];
    std::size_t n = 1;
    while (n < weights.size() && kept < enough) kept += weights[n++];
    weights.resize(n);
    total = kept;
  }
  for (double& w : weights)
    if (w < o.min_p()) total -= std::exchange(w, 0);
  return {std::move(order), std::move(weights), total};
}

}  // namespace

std::int64_t sample_token(const Tensor& scores, const Tokens& sequence, const SamplingOptions& o, double uniform) {
  constexpr const char* op = "sample_token";
  check_sampling(op, o);
  check::floating(op, "logits", scores);
  if (scores.rank() != 1 || scores.numel() == 0)
    check::fail(op, "logits is ", scores.shape(), ": it must be [V], V > 0");
  const Tensor logits = o.logits_processor() ? o.logits_processor()(scores, sequence) : scores;
  check::floating(op, "the result of logits_processor", logits);
  check::shape(op, "the result of logits_processor", logits, scores.shape());
  if (!(uniform >= 0 && uniform < 1)) check::fail(op, "uniform is ", uniform, ": it must be in 0 … 1, below 1");
  const std::vector<double> x = penalized(logits, sequence, o.repetition_penalty());
  const auto likeliest = std::max_element(x.begin(), x.end());
  if (*likeliest == -std::numeric_limits<double>::infinity())
    check::fail(op, "all logits are -inf",
                o.logits_processor() ? " behind the logits_processor, which must leave a token" : "",
                ": no token is possible");
  if (o.temperature() == 0) return likeliest - x.begin();
  return candidates(x, *likeliest, o, logits.dtype()).drawn(uniform);
}

namespace {

// The input of the model: the last tokens of each row, at most context_length, right-aligned. The cache has capacity
// for these and `more` positions, within context_length.
struct Window {
  Tensor ids;  // [rows, T]
  KVCache cache;

  static Window of(const GPT& gpt, const std::vector<Tokens>& sequences, const std::vector<std::int64_t>& rows,
                   std::int64_t more, std::optional<DType> dtype) {
    const std::int64_t context = gpt.options().context_length(), count = static_cast<std::int64_t>(rows.size());
    std::vector<std::int64_t> sizes;
    sizes.reserve(rows.size());
    for (const std::int64_t row : rows)
      sizes.push_back(std::min(context, static_cast<std::int64_t>(sequences[row].size())));
    const std::int64_t longest = *std::max_element(sizes.begin(), sizes.end());
    Window w{zeros({count, longest}, int64), gpt.make_cache(count, longest + std::min(more, context - longest), dtype)};
    std::vector<std::int64_t> padding;
    for (std::int64_t i = 0; i < count; ++i) {
      const Tokens& all = sequences[rows[i]];
      padding.push_back(longest - sizes[i]);
      std::copy(all.end() - sizes[i], all.end(), w.ids.fresh<std::int64_t>() + i * longest + padding.back());
    }
    if (std::any_of(padding.begin(), padding.end(), [](std::int64_t p) { return p > 0; })) w.cache.set_padding(padding);
    return w;
  }
};

// The random numbers of a row, one for each new token. They do not depend on the other rows.
class Draws {
 public:
  explicit Draws(Generator& generator)
      : own_(static_cast<std::uint64_t>(randint(0, std::int64_t{1} << 62, {1}, generator).item<std::int64_t>())) {}
  double at(std::size_t token) {
    while (drawn_.size() <= token) drawn_.push_back(rand({1}, float64, own_).item());
    return drawn_[token];
  }

 private:
  Generator own_;
  std::vector<double> drawn_;
};

// The texts of a call.
struct Texts {
  const GPT& gpt;
  const GenerateOptions& o;
  std::vector<Tokens> sequences, results;
  std::vector<Draws> draws;

  // Appends the token after logits [V]. Returns whether the row goes on.
  bool append(std::size_t row, const Tensor& logits) {
    const std::int64_t token = sample_token(logits, sequences[row], o, draws[row].at(results[row].size()));
    sequences[row].push_back(token);
    results[row].push_back(token);
    if (o.on_token()) o.on_token()(static_cast<std::int64_t>(row), token);
    return static_cast<std::int64_t>(results[row].size()) < o.max_new_tokens() &&
           std::count(o.stop_tokens().begin(), o.stop_tokens().end(), token) == 0;
  }
};

// Continues some rows side by side.
void continue_rows(Texts& texts, std::vector<std::int64_t> rows) {
  const GenerateOptions& o = texts.o;
  Window w = Window::of(texts.gpt, texts.sequences, rows, o.max_new_tokens(), o.cache_dtype());
  for (std::int64_t step = 0; !rows.empty(); ++step) {
    if (w.cache.length() + w.ids.size(1) > w.cache.max_length())
      w = Window::of(texts.gpt, texts.sequences, rows, o.max_new_tokens() - step, o.cache_dtype());
    const Tensor logits = texts.gpt.forward_last(w.ids, w.cache);
    std::vector<std::int64_t> alive, places;
    Tokens next;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<std::size_t>(rows[i]);
      if (!texts.append(row, logits[static_cast<std::int64_t>(i)])) continue;
      alive.push_back(rows[i]);
      places.push_back(static_cast<std::int64_t>(i));
      next.push_back(texts.sequences[row].back());
    }
    w.cache.select(places);
    rows = std::move(alive);
    w.ids = tensor(next, {static_cast<std::int64_t>(next.size()), 1});
  }
}

// A model with the cache of one sequence.
struct Reader {
  const GPT& gpt;
  KVCache cache;

  // The logits [new tokens, V] after the tokens of the sequence that are not in the cache yet.
  Tensor read(const Tokens& sequence) {
    const Tokens unread(sequence.begin() + cache.length(), sequence.end());
    return gpt(tensor(unread, {1, static_cast<std::int64_t>(unread.size())}), cache)[0];
  }
  // Forgets all tokens behind the first `length`.
  void forget(std::int64_t length) { cache.truncate(std::min(length, cache.length())); }
};

// Speculative decoding (Leviathan et al. 2023) of one row. The assistant proposes tokens with the random numbers of the
// row. The model reads all proposals at once, and draws with the same numbers. A proposal counts if both drew the same
// token, and all proposals before it count. So the text is the one that the model alone would write.
void continue_with_assistant(Texts& texts, std::size_t row) {
  const GenerateOptions& o = texts.o;
  Tokens& sequence = texts.sequences[row];
  const Tokens& result = texts.results[row];
  const std::int64_t length = static_cast<std::int64_t>(sequence.size()) + o.max_new_tokens();
  Reader model{texts.gpt, texts.gpt.make_cache(1, length, o.cache_dtype())};
  Reader assistant{*o.assistant_model(), o.assistant_model()->make_cache(1, length)};
  std::int64_t most = o.num_assistant_tokens();  // one more than were right, so that few are made in vain
  for (bool goes_on = true; goes_on;) {
    const auto known = static_cast<std::int64_t>(sequence.size());
    const std::int64_t proposals = std::min(most, length - known - 1);
    Tokens proposed = sequence;
    for (std::int64_t i = 0; i < proposals; ++i) {
      const double uniform = texts.draws[row].at(result.size() + static_cast<std::size_t>(i));
      proposed.push_back(sample_token(assistant.read(proposed)[-1], proposed, o, uniform));
    }
    const Tensor logits = model.read(proposed);
    Proposals counts{proposals, 0};
    for (std::int64_t i = 0, at = known; i <= proposals && goes_on; ++i, ++at) {
      goes_on = texts.append(row, logits[i - proposals - 1]);
      if (i == proposals || sequence.back() != proposed[at]) break;
      ++counts.accepted;
    }
    if (o.proposals()) o.proposals()->made += counts.made, o.proposals()->accepted += counts.accepted;
    most = std::min(counts.accepted + 1, o.num_assistant_tokens());
    model.forget(static_cast<std::int64_t>(sequence.size()) - 1);
    assistant.forget(static_cast<std::int64_t>(sequence.size()) - 1);
  }
}

void check_stop_tokens(const char* op, const GPT& gpt, const GenerateOptions& o) {
  const std::int64_t vocab_size = gpt.options().vocab_size();
  for (const std::int64_t token : o.stop_tokens())
    if (token < 0 || token >= vocab_size)
      check::fail(op, "stop_tokens has ", token, ": a token must be in 0 … ", vocab_size - 1);
}

void check_assistant(const char* op, const GPT& gpt, const GenerateOptions& o, std::int64_t longest) {
  const GPTOptions& mine = o.assistant_model()->options();
  check_drops_nothing(op, "the assistant_model", *o.assistant_model());
  if (o.num_assistant_tokens() < 1)
    check::fail(op, "num_assistant_tokens is ", o.num_assistant_tokens(), ": it must be at least 1");
  if (mine.vocab_size() != gpt.options().vocab_size())
    check::fail(op, "the assistant_model has vocab_size ", mine.vocab_size(), ", the model ",
                gpt.options().vocab_size(), ": they must agree");
  const std::int64_t context = std::min(mine.context_length(), gpt.options().context_length());
  if (o.max_new_tokens() > context - longest)
    check::fail(op, "the longest prompt has ", longest, " tokens, and max_new_tokens is ", o.max_new_tokens(),
                ": with an assistant_model they must be at most both context lengths, ", context);
}

}  // namespace

std::vector<Tokens> generate(const GPT& gpt, const std::vector<Tokens>& prompts, const GenerateOptions& o) {
  constexpr const char* op = "generate";
  check_sampling(op, o);
  check::not_negative(op, "max_new_tokens", o.max_new_tokens());
  check_drops_nothing(op, "the model", gpt);
  check_stop_tokens(op, gpt, o);
  std::int64_t longest = 0;
  for (const Tokens& prompt : prompts) {
    if (prompt.empty()) check::fail(op, "a prompt is empty: it must have at least one token");
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()));
  }
  if (o.past_context() == PastContext::error && o.max_new_tokens() > gpt.options().context_length() - longest)
    check::fail(op, "the longest prompt has ", longest, " tokens, and max_new_tokens is ", o.max_new_tokens(),
                ": together they must be at most context_length, ", gpt.options().context_length(),
                ", or past_context must be PastContext::slide");
  if (o.assistant_model()) check_assistant(op, gpt, o, longest);
  Texts texts{gpt, o, prompts, std::vector<Tokens>(prompts.size()), {}};
  if (prompts.empty() || o.max_new_tokens() == 0) return texts.results;

  Generator& generator = o.generator() ? *o.generator() : default_generator();
  const Rollback draw_again([&, before = generator] { generator = before; });
  // Rows that share a window have its length; in the mode Reproducible none is padded.
  std::map<std::size_t, std::vector<std::int64_t>> together;
  for (std::size_t row = 0; row < prompts.size(); ++row) {
    texts.draws.emplace_back(generator);
    together[reproducible() ? prompts[row].size() : 0].push_back(static_cast<std::int64_t>(row));
  }
  bool& reproducibly = fit::detail::thread_state.reproducible;
  const fit::detail::Scoped mode(reproducibly, reproducibly || (o.assistant_model() && o.reproducible()));
  for (const auto& [size, rows] : together)
    if (!o.assistant_model()) continue_rows(texts, rows);
  for (std::size_t row = 0; row < prompts.size() && o.assistant_model(); ++row) continue_with_assistant(texts, row);
  return texts.results;
}

}  // namespace fit::nn
