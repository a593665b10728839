#include <algorithm>
#include <cmath>
#include <limits>

#include "common/load.hpp"
#include "fit/nn/optim/schedule.hpp"
#include "optim/ranges.hpp"
#include "optim/rates.hpp"

namespace fit::optim {
namespace {

constexpr const char* plateau_op = "ReduceLROnPlateau";

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(optimizer),
      options_(options),
      best_(options.mode() == PlateauOptions::Mode::min ? std::numeric_limits<double>::infinity()
                                                        : -std::numeric_limits<double>::infinity()) {
  check_share(plateau_op, "factor", options.factor());
  check_not_negative(plateau_op, "threshold", options.threshold());
  check_not_negative(plateau_op, "min_lr", options.min_lr());
  check_not_negative(plateau_op, "eps", options.eps());
  if (options.patience() < 0 || options.cooldown() < 0)
    check::fail(plateau_op, "patience is ", options.patience(), ", cooldown ", options.cooldown(),
                ": neither may be negative");
}

bool ReduceLROnPlateau::better(double metric) const {
  const double sign = options_.mode() == PlateauOptions::Mode::min ? -1 : 1;
  const double of_best = best_ < 0 ? -sign : sign;  // the sign of a fraction of best_ that improves it
  double bound = best_;
  if (options_.threshold_mode() == PlateauOptions::Threshold::abs)
    bound += sign * options_.threshold();
  else if (std::isfinite(best_))
    bound *= 1 + of_best * options_.threshold();
  return sign < 0 ? metric < bound : metric > bound;
}

void ReduceLROnPlateau::step(double metric) {
  const bool improved = better(metric);
  if (improved) best_ = metric;
  const bool cooling = cooldown_ > 0;
  if (cooling) --cooldown_;
  bad_ = improved || cooling ? 0 : bad_ + 1;
  if (bad_ <= options_.patience()) return;
  for (std::size_t g = 0; g < optimizer_.groups(); ++g) {
    const double before = optimizer_.lr(g), after = std::max(before * options_.factor(), options_.min_lr());
    if (before - after > options_.eps()) optimizer_.set_lr(g, after);
  }
  cooldown_ = options_.cooldown();
  bad_ = 0;
}

StateDict ReduceLROnPlateau::state_dict() const {
  return {{"lr", rates_tensor(optimizer_)},
          {"best", full({}, best_, float64)},
          {"num_bad_epochs", full({}, bad_, int64)},
          {"cooldown_counter", full({}, cooldown_, int64)}};
}

void ReduceLROnPlateau::load_state_dict(const StateDict& state) {
  const auto loaded = state_dict();  // new tensors that receive the values
  nn::load_values("load_state_dict", plateau_op, loaded, state);
  set_rates(optimizer_, loaded[0].second.to_vector<double>());
  best_ = loaded[1].second.item();
  bad_ = loaded[2].second.item<std::int64_t>();
  cooldown_ = loaded[3].second.item<std::int64_t>();
}

}  // namespace fit::optim
