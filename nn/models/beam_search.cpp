#include <algorithm>
#include <cmath>
#include <limits>

#include "common/functions.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

constexpr const char* beam_search_op = "beam_search";

struct Live {
  Tokens tokens;
  double log_probability = 0;
};

// One item of the batch: its live and ended hypotheses.
struct Item {
  std::vector<Live> live;
  std::vector<Hypothesis> ended;
};

void check_options(std::int64_t batch, const BeamOptions& o) {
  if (batch < 0 || batch > INT32_MAX)
    check::fail(beam_search_op, "batch is ", batch, ": it must be in 0 … ", INT32_MAX);
  if (o.num_beams() < 1) check::fail(beam_search_op, "num_beams is ", o.num_beams(), ": it must be positive");
  if (o.max_length() < 1) check::fail(beam_search_op, "max_length is ", o.max_length(), ": it must be positive");
  // The largest divisor of a score, or factor for a negative exponent.
  if (!std::isfinite(number::pow(static_cast<double>(o.max_length()), std::abs(o.length_penalty()))))
    check::fail(beam_search_op, "length_penalty is ", o.length_penalty(), ", max_length is ", o.max_length(),
                ": max_length to the power of it must be finite");
}

// The log probabilities of the tokens, float64 [rows, V].
Tensor log_probabilities(const Tensor& logits, std::int64_t rows) {
  check::floating(beam_search_op, "what the step gave", logits);
  if (logits.rank() != 2 || logits.size(0) != rows || logits.size(1) == 0)
    check::fail(beam_search_op, "the step gave logits of shape ", logits.shape(), " for ", rows,
                " rows: they must be [rows, V], V > 0");
  const Tensor largest = max(logits, {1});  // NaN if the row has a NaN
  for (std::int64_t row = 0; row < rows; ++row)
    if (const double x = largest[row].item(); !std::isfinite(x))
      check::fail(beam_search_op, "row ", row, " of the step's logits ",
                  std::isnan(x) ? "holds NaN"
                  : x > 0       ? "holds +inf"
                                : "is -inf everywhere: no token is possible");
  return log_softmax(logits.to(float64));
}

void end(Item& item, Live&& live, const BeamOptions& o) {
  const double length = static_cast<double>(live.tokens.size());
  const double score = live.log_probability / number::pow(length, o.length_penalty());
  item.ended.push_back({std::move(live.tokens), live.log_probability, score});
  std::stable_sort(item.ended.begin(), item.ended.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  if (static_cast<std::int64_t>(item.ended.size()) > o.num_beams()) item.ended.pop_back();
}

// Whether no live hypothesis can become one of the best. Log probabilities only fall. A score is best at the max length
// for a positive exponent, else at the next length.
bool finished(const Item& item, const BeamOptions& o) {
  if (item.live.empty()) return true;
  if (static_cast<std::int64_t>(item.ended.size()) < o.num_beams()) return false;
  const double now = static_cast<double>(item.live.front().tokens.size()) + 1,
               last = static_cast<double>(o.max_length());
  const double reach = number::pow(o.length_penalty() > 0 ? last : now, o.length_penalty());
  return item.live.front().log_probability / reach <= item.ended.back().score;
}

// Replaces the live hypotheses of an item by their best continuations, and adds the row of each one's predecessor to
// `parents`. `row` is the first row of the item.
void grow(Item& item, const Tensor& log_probabilities, std::int64_t row, const BeamOptions& o,
          std::vector<std::int64_t>& parents) {
  struct Candidate {
    double log_probability;
    std::int64_t from, token;
  };
  const std::int64_t V = log_probabilities.size(1);
  std::vector<Candidate> candidates;
  const double* p = log_probabilities.data<double>().data() + row * V;
  for (std::size_t i = 0; i < item.live.size(); ++i)
    for (std::int64_t token = 0; token < V; ++token, ++p)
      if (*p > -std::numeric_limits<double>::infinity())
        candidates.push_back({item.live[i].log_probability + *p, static_cast<std::int64_t>(i), token});
  const auto found = static_cast<std::int64_t>(candidates.size());
  const auto kept =
      candidates.begin() + (o.num_beams() < found / 2 ? 2 * o.num_beams() : found);  // one per beam may end
  std::partial_sort(candidates.begin(), kept, candidates.end(), [](const Candidate& a, const Candidate& b) {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    return a.from != b.from ? a.from < b.from : a.token < b.token;
  });
  std::vector<Live> next;
  for (auto c = candidates.begin(); c != kept && static_cast<std::int64_t>(next.size()) < o.num_beams(); ++c) {
    Live grown{item.live[c->from].tokens, c->log_probability};
    grown.tokens.push_back(c->token);
    if (c->token == o.end() || static_cast<std::int64_t>(grown.tokens.size()) == o.max_length()) {
      end(item, std::move(grown), o);
    } else {
      next.push_back(std::move(grown));
      parents.push_back(row + c->from);
    }
  }
  item.live = std::move(next);
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(const BeamStep& step, std::int64_t batch, const BeamOptions& o) {
  check_options(batch, o);
  if (!step) check::fail(beam_search_op, "the step is empty: it must give logits");
  const NoGrad no_grad;
  std::vector<Item> items(static_cast<std::size_t>(batch));
  Tokens tokens;
  std::vector<std::int64_t> parents;
  for (std::int64_t b = 0; b < batch; ++b) {
    items[b].live.emplace_back();
    tokens.push_back(o.begin());
    parents.push_back(b);
  }
  while (!tokens.empty()) {
    const Tensor p = log_probabilities(step(tokens, parents), static_cast<std::int64_t>(tokens.size()));
    if (o.end() < 0 || o.end() >= p.size(1))
      check::fail(beam_search_op, "end is ", o.end(), ", the step gave logits of ", p.size(1),
                  " tokens: end must be in 0 … ", p.size(1) - 1);
    tokens.clear();
    parents.clear();
    std::int64_t row = 0;
    for (Item& item : items) {
      const auto count = static_cast<std::int64_t>(item.live.size());
      if (count == 0) continue;
      const std::size_t before = parents.size();
      grow(item, p, row, o, parents);
      row += count;
      if (finished(item, o)) {
        item.live.clear();
        parents.resize(before);
      }
      for (const Live& live : item.live) tokens.push_back(live.tokens.back());
    }
  }
  std::vector<std::vector<Hypothesis>> results;
  results.reserve(items.size());
  for (Item& item : items) results.push_back(std::move(item.ended));
  return results;
}

}  // namespace fit::nn
