#include "plot/visibility.hpp"

namespace fit::plot {

Visibility visibility(const Tensor& mask, bool causal, std::int64_t window, std::int64_t queries, std::int64_t keys) {
  Visibility v;
  v.heads = mask.defined() ? mask.size(0) : 1;
  v.rows = queries;
  v.cols = keys;
  v.why.assign(static_cast<std::size_t>(v.heads * queries * keys), visible);
  const std::int64_t mask_rows = mask.defined() ? mask.size(1) : 1;
  std::vector<bool> never(static_cast<std::size_t>(keys));  // keys that the mask shows to nobody
  std::size_t at = 0;
  for (std::int64_t h = 0; h < v.heads; ++h) {
    const bool* const shown = mask.defined() ? mask.data<bool>().data() + h * mask_rows * keys : nullptr;
    for (std::int64_t j = 0; shown && j < keys; ++j) {
      bool seen = false;
      for (std::int64_t i = 0; i < mask_rows; ++i) seen = seen || shown[i * keys + j];
      never[static_cast<std::size_t>(j)] = !seen;
    }
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = 0; j < keys; ++j, ++at) {
        const std::int64_t ahead = j - (i + keys - queries);
        if (causal && ahead > 0)
          v.why[at] = future;
        else if (shown && !shown[(mask_rows == 1 ? 0 : i) * keys + j])
          v.why[at] = never[static_cast<std::size_t>(j)] ? padded : masked;
        else if (window > 0 && ahead <= -window)
          v.why[at] = outside_window;
      }
  }
  return v;
}

}  // namespace fit::plot
