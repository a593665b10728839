#include "plot/figures/masked_pairs.hpp"

#include "attention/attend.hpp"
#include "fit/ops/ops.hpp"

namespace fit::plot {

MaskedPairs masked_pairs(const Tensor& mask, bool causal, std::int64_t window, std::int64_t queries,
                         std::int64_t keys) {
  const Tensor batch = mask.defined() ? reshape(mask, mask.shape().inserted(0, 1)) : mask;
  MaskedPairs pairs;
  pairs.heads = mask.defined() ? mask.size(0) : 1;
  kernels::Visibility v{queries, keys, causal, window};
  const auto plan = detail::plan_tiles("masked_pairs", v, 1, pairs.heads, batch);
  plan.apply(v);
  const auto allowed = detail::view_scores(mask.defined() ? batch.data<bool>().data() : nullptr, batch);
  pairs.rows = queries;
  pairs.cols = keys;
  pairs.why.assign(static_cast<std::size_t>(pairs.heads * queries * keys), attends);
  std::size_t at = 0;
  for (std::int64_t h = 0; h < pairs.heads; ++h) {
    std::vector<bool> padding(static_cast<std::size_t>(keys), mask.defined());  // keys that the mask leaves to no query
    for (std::int64_t i = 0; mask.defined() && i < mask.size(1); ++i)
      for (std::int64_t j = 0; j < keys; ++j)
        if (allowed.at(0, h, i)[j]) padding[j] = false;
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = 0; j < keys; ++j, ++at) {
        if (v.attends(0, h, i, j)) continue;
        if (causal && j >= v.range(i).end)
          pairs.why[at] = future;
        else if (allowed.data && !allowed.at(0, h, i)[j])
          pairs.why[at] = padding[j] ? padded : masked;
        else
          pairs.why[at] = outside_window;
      }
  }
  return pairs;
}

}  // namespace fit::plot
