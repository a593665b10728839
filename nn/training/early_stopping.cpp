#include "fit/nn/training/early_stopping.hpp"

#include <cmath>

#include "common/load.hpp"
#include "tensor/check.hpp"

namespace fit {

EarlyStopping::EarlyStopping(int patience, double min_delta) : patience_(patience), min_delta_(min_delta) {
  check::not_negative("EarlyStopping", "patience", patience);
  if (!(min_delta >= 0 && std::isfinite(min_delta)))
    check::fail("EarlyStopping", "min_delta is ", min_delta,
                ": it must be finite and not negative, or a worse value would count as the best");
}

bool EarlyStopping::update(double value) {
  if (value < best_ - min_delta_) {
    best_ = value;
    since_best_ = 0;
    return true;
  }
  ++since_best_;
  return false;
}

StateDict EarlyStopping::state_dict() const {
  return {{"best", full({}, best_, float64)}, {"since_best", full({}, since_best_, int64)}};
}

void EarlyStopping::load_state_dict(const StateDict& state) {
  const auto mine = state_dict();
  nn::load_values("load_state_dict", "EarlyStopping", mine, state);
  if (std::isnan(mine[0].second.item()) || mine[1].second.item<std::int64_t>() < 0)
    check::fail("load_state_dict", "the state of EarlyStopping has best ", mine[0].second.item(), ", since_best ",
                mine[1].second.item<std::int64_t>(), ": a number, and a count; nothing was loaded");
  best_ = mine[0].second.item();
  since_best_ = mine[1].second.item<std::int64_t>();
}

}  // namespace fit
