#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "fit/nn/optim/optimizer.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"

namespace fit::optim {

/// How far a step of LBFGS goes along its direction.
enum class LineSearch {
  none,         ///< lr; in the very first step lr min(1, 1 / sum |g|)
  strong_wolfe  ///< until loss and slope have fallen enough (Nocedal & Wright 2006, algorithms 3.5 and 3.6)
};

/// The options of LBFGS.
struct LBFGSOptions {
  FIT_OPTION(double, lr) = 1;               ///< The factor of the direction; with strong_wolfe the first one tried.
  FIT_OPTION(std::int64_t, max_iter) = 20;  ///< The max number of iterations in each step().
  FIT_OPTION(std::int64_t, max_eval) = 0;   ///< The max number of closure calls in each step(); max_iter * 5 / 4 if 0.
  FIT_OPTION(double, tolerance_grad) = 1e-7;     ///< step() ends when the largest gradient is at most this.
  FIT_OPTION(double, tolerance_change) = 1e-9;   ///< step() ends when parameters or loss change by no more than this.
  FIT_OPTION(std::int64_t, history_size) = 100;  ///< The number of past gradients for the estimated curvature.
  FIT_OPTION(LineSearch, line_search_fn) = LineSearch::none;  ///< The choice of the step length.
};

/// Quasi-Newton method that estimates the Hessian from the last gradients (Liu & Nocedal 1989). It suits a few thousand
/// parameters and a loss over all data, without dropout. Formulas, names and defaults are PyTorch's.
///
///     optim::LBFGS optimizer(net.named_parameters());
///     optimizer.step([&] {
///       const Tensor loss = nn::mse_loss(net(x), y);
///       loss.backward();
///       return loss;
///     });
class LBFGS {
 public:
  /// Throws Error for options out of range, for parameters that an Optimizer would refuse, and for trained parameters
  /// of several types. Frozen parameters may have any floating type.
  explicit LBFGS(const Parameters& parameters, const LBFGSOptions& options = {});

  /// `closure` computes the loss, calls its backward(), and returns it; step() calls it several times, and clears the
  /// gradients before. Returns the first loss. Parameters without a gradient do not change. Throws Error for a loss
  /// that is not one finite number, for a gradient that is not finite, and if no trained parameter has a gradient, or
  /// one is in no layer any more. The parameters then have their values from before the step.
  double step(const std::function<Tensor()>& closure);
  /// Clears the gradients.
  void zero_grad();
  /// A Trainer and the schedules take an Optimizer, whose step() has no closure.
  operator Optimizer&() = delete;  // call step(closure) in a loop of your own, and set options().lr() there

  /// The options. They may be changed between steps.
  LBFGSOptions& options() { return options_; }
  const LBFGSOptions& options() const { return options_; }

  /// The state for the next step: "n_iter", "func_evals", "d", "t", "H_diag", "prev_flat_grad", "prev_loss" and the
  /// history, "old_dirs" and "old_stps" [m, N], where N is the number of elements of all parameters. Before the first
  /// step only the counts.
  StateDict state_dict() const;
  /// Throws Error, and changes nothing, for names or shapes that don't fit.
  void load_state_dict(const StateDict& state);

 private:
  /// A point on the line of a step: its distance, the loss, and the slope of the loss along the direction.
  struct Point {
    double t = 0, loss = 0, slope = 0;
    Tensor gradient;  // [N]
  };
  const StateDict::value_type& leading() const;
  Point evaluate(const std::function<Tensor()>& closure);
  Tensor gradient() const;
  Tensor values() const;
  void set_values(const Tensor& flat);  // of the parameters that the last evaluation gave a gradient
  void restore_values(const Tensor& flat);
  Tensor direction(const Tensor& g);
  struct Search;
  Point search(const std::function<Tensor()>& closure, const Point& start, std::int64_t max_evaluations);
  void check_options() const;

  StateDict parameters_;
  nn::detail::HeldByLayers held_;
  LBFGSOptions options_;
  std::int64_t n_iter_ = 0, func_evals_ = 0;
  Tensor d_, previous_;  // the last direction and gradient
  double t_ = 0, H_diag_ = 1, previous_loss_ = 0;
  std::vector<Tensor> old_dirs_, old_stps_;  // differences of gradients and of points
};

}  // namespace fit::optim
