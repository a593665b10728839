#include <cstdint>
#include <vector>

#include "fit/nn/metrics/metrics.hpp"
#include "fit/ops/ops.hpp"
#include "fit/plot.hpp"

namespace fit::plot {

Figure confusion(const metrics::ConfusionMatrix& matrix, const std::vector<std::string>& names,
                 const std::string& title) {
  const Tensor counts = matrix.counts().to(float64), targets = sum(counts, 1, keepdims);
  // A class without targets has an empty row.
  const Tensor fractions = counts / maximum(targets, ones_like(targets));
  return heatmap(fractions,
                 Options().title(title).xlabel("Predicted").ylabel("Right").x(names).y(names).vmin(0).vmax(1));
}

}  // namespace fit::plot
