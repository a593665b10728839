#include <cmath>
#include <limits>
#include <vector>

#include "fit/graph.hpp"
#include "fit/ops.hpp"
#include "fit/optim.hpp"
#include "optim/grad_norm.hpp"

namespace fit::optim {

namespace {

enum State { row_var, col_var, variance };

double rms(const Tensor& x) { return std::sqrt(sum_of_squares(x) / static_cast<double>(x.numel())); }

// average + share (x - average)
Tensor moved_to(const Tensor& average, const Tensor& x, double share) { return average + (x - average) * share; }

}  // namespace

template <>
void GroupedOptimizer<AdafactorOptions>::step() {
  const NoGrad no_grad;
  each_change([&](Slot& slot, std::vector<Change>& changes) {
    const AdafactorOptions& o = options(slot.group);
    Tensor& p = slot.parameter;
    if (p.numel() == 0) return;
    const Tensor g = o.maximize() ? -p.grad() : p.grad(), squares = square(g);
    const double rounding =
        p.dtype() == float32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
    const double t = static_cast<double>(slot.steps), share = std::pow(t, o.beta2_decay());
    const double eps1 = o.eps1() > 0 ? o.eps1() : rounding;
    const double rate = std::min(o.lr(), 1 / std::sqrt(t)) * std::max(o.eps2(), rms(p));
    Tensor v;
    if (p.rank() < 2) {
      v = moved_to(slot.state[variance], squares, share);
      changes.push_back({slot.state[variance], v});
    } else {
      const Tensor rows = moved_to(slot.state[row_var], mean(squares, -1, keepdims), share);
      const Tensor columns = moved_to(slot.state[col_var], mean(squares, -2, keepdims), share);
      changes.push_back({slot.state[row_var], rows});
      changes.push_back({slot.state[col_var], columns});
      v = matmul(rows, columns) / clamp_min(mean(rows, -2, keepdims), eps1);
    }
    const Tensor update = g / sqrt(clamp_min(v, eps1 * eps1));
    const double shrink = std::max(1., rms(update) / o.d());
    changes.push_back({p, p * (1 - o.lr() * o.weight_decay()) - update * (rate / shrink)});
  });
}

}  // namespace fit::optim
