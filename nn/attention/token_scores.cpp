#include "attention/token_scores.hpp"

#include <cmath>
#include <limits>
#include <numeric>

namespace fit {
namespace {

struct QueryMean {
  double sum = 0;
  std::int64_t queries = 0;

  void add(double weight) { sum += weight, ++queries; }
  double value() const {
    return queries > 0 ? sum / static_cast<double>(queries) : std::numeric_limits<double>::quiet_NaN();
  }
};

}  // namespace

std::vector<TokenScores> token_scores(const Tensor& weights, const std::vector<std::int64_t>& tokens) {
  const std::int64_t B = weights.size(0), H = weights.size(1), Sq = weights.size(2), Sk = weights.size(3);
  struct Means {
    QueryMean previous, duplicate, induction;
  };
  std::vector<Means> means(static_cast<std::size_t>(H));
  const float* row = weights.data<float>().data();
  for (std::int64_t b = 0; b < B; ++b)
    for (Means& head : means)
      for (std::int64_t i = 0; i < Sq; ++i, row += Sk) {
        const double total = std::accumulate(row, row + Sk, 0.0);
        if (!std::isfinite(total) || total <= 0) continue;
        const std::int64_t at = i + Sk - Sq;
        if (at > 0) head.previous.add(row[at - 1]);
        if (tokens.empty()) continue;
        const std::int64_t* const token = tokens.data() + b * Sk;
        double duplicate = 0, induction = 0;
        bool repeated = false;
        for (std::int64_t j = 0; j < at; ++j)
          if (token[j] == token[at]) repeated = true, duplicate += row[j], induction += row[j + 1];
        if (repeated) head.duplicate.add(duplicate), head.induction.add(induction);
      }
  std::vector<TokenScores> scores;
  for (const Means& head : means)
    scores.push_back({head.previous.value(), head.duplicate.value(), head.induction.value()});
  return scores;
}

}  // namespace fit
