#include "fit/nn/generate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fit/nn/gpt.hpp"
#include "fit/ops.hpp"
#include "rollback.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

void check_sampling(const char* op, const SamplingOptions& o) {
  if (!(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty)))
    check::fail(op, "repetition_penalty is ", o.repetition_penalty, ": it must be positive and finite");
  if (!(o.temperature >= 0 && std::isfinite(o.temperature)))
    check::fail(op, "temperature is ", o.temperature, ": it must be finite and not negative");
  if (o.top_k < 0) check::fail(op, "top_k is ", o.top_k, ": it must not be negative");
  if (!(o.top_p > 0 && o.top_p <= 1)) check::fail(op, "top_p is ", o.top_p, ": it must be in 0 … 1, above 0");
}

// What was possible stays possible, and finite.
double penalized(double logit, double penalty) {
  if (!std::isfinite(logit)) return logit;
  constexpr double largest = std::numeric_limits<double>::max();
  return std::clamp(logit > 0 ? logit / penalty : logit * penalty, -largest, largest);
}

std::vector<double> penalized(const Tensor& logits, const Tokens& sequence, double penalty) {
  std::vector<double> x = logits.to(float64).to_vector<double>();
  if (std::any_of(x.begin(), x.end(), [](double v) { return std::isnan(v); }))
    check::fail("sample_token", "a logit is NaN");
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

}  // namespace

std::int64_t sample_token(const Tensor& logits, const Tokens& sequence, const SamplingOptions& o, double uniform) {
  constexpr const char* op = "sample_token";
  check_sampling(op, o);
  check::floating(op, "logits", logits);
  if (logits.rank() != 1 || logits.numel() == 0)
    check::fail(op, "logits is ", logits.shape(), ": it must be [V], V > 0");
  if (!(uniform >= 0 && uniform < 1)) check::fail(op, "uniform is ", uniform, ": it must be in 0 … 1, below 1");
  std::vector<double> x = penalized(logits, sequence, o.repetition_penalty);
  const auto likeliest = std::max_element(x.begin(), x.end());
  if (*likeliest == -INFINITY) check::fail(op, "all logits are -inf: no token is possible");
  if (o.temperature == 0) return likeliest - x.begin();

  // Likeliest first; of equals the lower token.
  Tokens order(x.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int64_t a, std::int64_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; };
  if (o.top_k > 0 && o.top_k < static_cast<std::int64_t>(order.size())) {
    std::nth_element(order.begin(), order.begin() + o.top_k, order.end(), likelier);
    order.resize(static_cast<std::size_t>(o.top_k));
  }
  if (o.top_p < 1) std::sort(order.begin(), order.end(), likelier);
  std::vector<double> probabilities;
  const double most = *likeliest;
  for (const std::int64_t token : order)  // an infinite logit outweighs all others
    probabilities.push_back(x[token] == most ? 1 : std::exp((x[token] - most) / o.temperature));
  double total = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  if (o.top_p < 1) {
    double kept = 0;
    std::size_t n = 0;
    while (n < probabilities.size() && kept < o.top_p * total) kept += probabilities[n++];
    probabilities.resize(n);
    total = kept;
  }
  double left = uniform * total;
  std::size_t last = 0;  // rounding may leave a little behind the last that is possible
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] == 0) continue;
    last = i;
    if ((left -= probabilities[i]) < 0) break;
  }
  return order[last];
}

std::vector<Tokens> generate(const GPT& gpt, const std::vector<Tokens>& prompts, const GenerateOptions& o) {
  constexpr const char* op = "generate";
  check_sampling(op, o);
  if (o.max_new_tokens < 0) check::fail(op, "max_new_tokens is ", o.max_new_tokens, ": it must not be negative");
  if (gpt.training() && gpt.options().dropout > 0)
    check::fail(op, "the model has dropout and is in training: call its eval() first");
  const auto B = static_cast<std::int64_t>(prompts.size());
  std::int64_t longest = 0;
  for (const Tokens& prompt : prompts) {
    if (prompt.empty()) check::fail(op, "a prompt is empty: it must have at least one token");
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()));
  }
  if (o.max_new_tokens > gpt.options().context_length - longest)
    check::fail(op, "the longest prompt has ", longest, " tokens, and max_new_tokens is ", o.max_new_tokens,
                ": together they must be at most context_length, ", gpt.options().context_length);
  std::vector<Tokens> results(prompts.size());
  if (B == 0 || o.max_new_tokens == 0) return results;

  KVCache cache = gpt.make_cache(B, longest + o.max_new_tokens);
  Tensor ids = zeros({B, longest}, int64);
  std::vector<std::int64_t> padding, rows(prompts.size());
  std::iota(rows.begin(), rows.end(), 0);
  for (std::int64_t b = 0; b < B; ++b) {
    const Tokens& prompt = prompts[static_cast<std::size_t>(b)];
    padding.push_back(longest - static_cast<std::int64_t>(prompt.size()));
    std::copy(prompt.begin(), prompt.end(), ids.fresh<std::int64_t>() + b * longest + padding.back());
  }
  if (std::any_of(padding.begin(), padding.end(), [](std::int64_t p) { return p > 0; })) cache.set_padding(padding);

  std::vector<Tokens> sequences = prompts;
  Generator& generator = o.generator ? *o.generator : default_generator();
  const Rollback draw_again([&, before = generator] { generator = before; });
  for (std::int64_t step = 0; step < o.max_new_tokens && !rows.empty(); ++step) {
    const Tensor logits = gpt.forward_last(ids, cache);
    const Tensor uniform = rand({B}, float64, generator);  // one for each row, ended or not
    std::vector<std::int64_t> alive, places;
    Tokens next;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<std::size_t>(rows[i]);
      const std::int64_t token =
          sample_token(logits[static_cast<std::int64_t>(i)], sequences[row], o, uniform.data<double>()[rows[i]]);
      sequences[row].push_back(token);
      results[row].push_back(token);
      if (std::count(o.stop_tokens.begin(), o.stop_tokens.end(), token)) continue;
      alive.push_back(rows[i]);
      places.push_back(static_cast<std::int64_t>(i));
      next.push_back(token);
    }
    cache.select(places);
    rows = std::move(alive);
    ids = tensor(next, {static_cast<std::int64_t>(next.size()), 1});
  }
  return results;
}

}  // namespace fit::nn
