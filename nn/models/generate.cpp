#include "fit/nn/generate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/rollback.hpp"
#include "fit/nn/gpt.hpp"
#include "fit/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

void check_sampling(const char* op, const SamplingOptions& o) {
  if (!(o.repetition_penalty() > 0 && std::isfinite(o.repetition_penalty())))
    check::fail(op, "repetition_penalty is ", o.repetition_penalty(), ": it must be positive and finite");
  if (!(o.temperature() >= 0 && std::isfinite(o.temperature())))
    check::fail(op, "temperature is ", o.temperature(), ": it must be finite and not negative");
  if (o.top_k() < 0) check::fail(op, "top_k is ", o.top_k(), ": it must not be negative");
  if (!(o.top_p() > 0 && o.top_p() <= 1)) check::fail(op, "top_p is ", o.top_p(), ": it must be in 0 … 1, above 0");
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
  std::vector<double> x = penalized(logits, sequence, o.repetition_penalty());
  const auto likeliest = std::max_element(x.begin(), x.end());
  if (*likeliest == -std::numeric_limits<double>::infinity())
    check::fail(op, "all logits are -inf: no token is possible");
  if (o.temperature() == 0) return likeliest - x.begin();

  // The most likely token first; of equals the lower id.
  Tokens order(x.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int64_t a, std::int64_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; };
  if (o.top_k() > 0 && o.top_k() < static_cast<std::int64_t>(order.size())) {
    std::nth_element(order.begin(), order.begin() + o.top_k(), order.end(), likelier);
    order.resize(static_cast<std::size_t>(o.top_k()));
  }
  if (o.top_p() < 1) std::sort(order.begin(), order.end(), likelier);
  std::vector<double> probabilities;
  const double most = *likeliest;
  for (const std::int64_t token : order)  // the comparison avoids inf - inf
    probabilities.push_back(x[token] == most ? 1 : std::exp((x[token] - most) / o.temperature()));
  double total = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  if (o.top_p() < 1) {
    double kept = 0;
    std::size_t n = 0;
    while (n < probabilities.size() && kept < o.top_p() * total) kept += probabilities[n++];
    probabilities.resize(n);
    total = kept;
  }
  double left = uniform * total;
  std::size_t last = 0;  // with rounding, `left` may stay positive after the last possible token
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] == 0) continue;
    last = i;
    if ((left -= probabilities[i]) < 0) break;
  }
  return order[last];
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
      sizes.push_back(std::min(context, static_cast<std::int64_t>(sequences[static_cast<std::size_t>(row)].size())));
    const std::int64_t longest = *std::max_element(sizes.begin(), sizes.end());
    Window w{zeros({count, longest}, int64), gpt.make_cache(count, longest + std::min(more, context - longest), dtype)};
    std::vector<std::int64_t> padding;
    for (std::int64_t i = 0; i < count; ++i) {
      const Tokens& all = sequences[static_cast<std::size_t>(rows[i])];
      padding.push_back(longest - sizes[i]);
      std::copy(all.end() - sizes[i], all.end(), w.ids.fresh<std::int64_t>() + i * longest + padding.back());
    }
    if (std::any_of(padding.begin(), padding.end(), [](std::int64_t p) { return p > 0; })) w.cache.set_padding(padding);
    return w;
  }
};

}  // namespace

std::vector<Tokens> generate(const GPT& gpt, const std::vector<Tokens>& prompts, const GenerateOptions& o) {
  constexpr const char* op = "generate";
  check_sampling(op, o);
  if (o.max_new_tokens() < 0) check::fail(op, "max_new_tokens is ", o.max_new_tokens(), ": it must not be negative");
  if (gpt.training() && gpt.options().dropout() > 0)
    check::fail(op, "the model has dropout and is in training: call its eval() first");
  const auto B = static_cast<std::int64_t>(prompts.size());
  std::int64_t longest = 0;
  for (const Tokens& prompt : prompts) {
    if (prompt.empty()) check::fail(op, "a prompt is empty: it must have at least one token");
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()));
  }
  if (o.past_context() == PastContext::error && o.max_new_tokens() > gpt.options().context_length() - longest)
    check::fail(op, "the longest prompt has ", longest, " tokens, and max_new_tokens is ", o.max_new_tokens(),
                ": together they must be at most context_length, ", gpt.options().context_length(),
                ", or past_context must be PastContext::slide");
  std::vector<Tokens> results(prompts.size());
  if (B == 0 || o.max_new_tokens() == 0) return results;

  std::vector<std::int64_t> rows(prompts.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<Tokens> sequences = prompts;
  Window w = Window::of(gpt, sequences, rows, o.max_new_tokens(), o.cache_dtype());
  Generator& generator = o.generator() ? *o.generator() : default_generator();
  const Rollback draw_again([&, before = generator] { generator = before; });
  for (std::int64_t step = 0; step < o.max_new_tokens() && !rows.empty(); ++step) {
    if (w.cache.length() + w.ids.size(1) > w.cache.max_length())
      w = Window::of(gpt, sequences, rows, o.max_new_tokens() - step, o.cache_dtype());
    const Tensor logits = gpt.forward_last(w.ids, w.cache);
    const Tensor uniform = rand({B}, float64, generator);  // one for each row, also for ended rows
    std::vector<std::int64_t> alive, places;
    Tokens next;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<std::size_t>(rows[i]);
      const std::int64_t token =
          sample_token(logits[static_cast<std::int64_t>(i)], sequences[row], o, uniform.data<double>()[rows[i]]);
      sequences[row].push_back(token);
      results[row].push_back(token);
      if (std::count(o.stop_tokens().begin(), o.stop_tokens().end(), token)) continue;
      alive.push_back(rows[i]);
      places.push_back(static_cast<std::int64_t>(i));
      next.push_back(token);
    }
    w.cache.select(places);
    rows = std::move(alive);
    w.ids = tensor(next, {static_cast<std::int64_t>(next.size()), 1});
  }
  return results;
}

}  // namespace fit::nn
