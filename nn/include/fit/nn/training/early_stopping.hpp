#pragma once
#include <cstdint>
#include <limits>

#include "fit/tensor/state_dict.hpp"

namespace fit {

/// Tells when a number that should fall makes no more progress.
class EarlyStopping {
 public:
  /// Progress is a value below the best by more than min_delta. With patience 0, stop() is always false. Throws Error
  /// if one is negative, or min_delta not finite.
  explicit EarlyStopping(int patience = 0, double min_delta = 0);
  /// Records a value. Returns whether it is the best so far; NaN never is.
  bool update(double value);
  /// Whether the last `patience` updates made no progress.
  bool stop() const { return patience_ > 0 && since_best_ >= patience_; }
  /// The best number; infinity before the first.
  double best() const { return best_; }

  /// The best number, and the number of updates since.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  int patience_;
  double min_delta_, best_ = std::numeric_limits<double>::infinity();
  std::int64_t since_best_ = 0;
};

}  // namespace fit
