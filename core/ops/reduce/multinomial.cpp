#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

// Draws without replacement: the ids of the `count` largest weight / e, with e from the exponential distribution.
Tensor draw_once(const Tensor& weights, std::int64_t count, const Tensor& uniform) {
  const Tensor keys = log(weights) - log(-log1p(-uniform));
  // Ids of weight 0 are never drawn.
  return topk(where(weights > 0, keys, -std::numeric_limits<double>::infinity()), count).second;
}

void draw_again(std::int64_t* ids, std::int64_t count, const double* weight, std::int64_t n, const double* uniform) {
  std::vector<double> sums(static_cast<std::size_t>(n));
  std::partial_sum(weight, weight + n, sums.begin());
  std::int64_t last = n - 1;  // with a weight above 0
  while (weight[last] == 0) --last;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t id = std::upper_bound(sums.begin(), sums.end(), uniform[i] * sums.back()) - sums.begin();
    ids[i] = std::min(id, last);
  }
}

}  // namespace

Tensor multinomial(const Tensor& weights, std::int64_t count, Replacement replacement, Generator& g) {
  check::floating("multinomial", "weights", weights);
  if (weights.rank() != 1 && weights.rank() != 2)
    check::fail("multinomial", "weights has shape ", weights.shape(), ": it must be [C] or [N, C]");
  check::not_negative("multinomial", "count", count);
  const NoGrad no_grad;
  const std::int64_t n = weights.shape().back(), rows = weights.rank() == 1 ? 1 : weights.shape()[0];
  const bool again = replacement == Replacement::yes;
  const Tensor wide = weights.to(float64);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* const w = wide.data<double>().data() + r * n;
    std::int64_t possible = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      if (!(w[i] >= 0) || std::isinf(w[i]))
        check::fail("multinomial", "the weight at ", i, " of row ", r, " is ", w[i],
                    ": it must be finite, and not negative");
      possible += w[i] > 0;
    }
    if (possible < (again ? std::min<std::int64_t>(count, 1) : count))
      check::fail(
          "multinomial", "row ", r, " has ", possible, " weights that are not 0, ", count, " ids are to be drawn",
          again || possible == 0 ? ": there must be one" : ": there must be as many; or draw with Replacement::yes");
  }
  if (!again) return draw_once(wide, count, rand(weights.shape(), float64, g));
  Tensor ids = Tensor::empty(weights.shape().with(weights.rank() - 1, count), int64);
  const Tensor uniform = rand({rows, count}, float64, g);
  for (std::int64_t r = 0; r < rows && count > 0; ++r)
    draw_again(ids.fresh<std::int64_t>() + r * count, count, wide.data<double>().data() + r * n, n,
               uniform.data<double>().data() + r * count);
  return ids;
}

}  // namespace fit
