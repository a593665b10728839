#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "fit/optim.hpp"
#include "fit/option.hpp"
#include "fit/state_dict.hpp"
#include "fit/tensor.hpp"

namespace fit::optim {

/// How far a step of LBFGS goes along its direction.
enum class LineSearch {
  none,         ///< lr; in the first step of all, lr min(1, 1 / the sum of |g|)
  strong_wolfe  ///< to where the loss and its slope have fallen enough (Nocedal & Wright 2006, algorithms 3.5 and 3.6)
};

/// The options of LBFGS.
struct LBFGSOptions {
  FIT_OPTION(double, lr) = 1;               ///< The factor of the direction; with strong_wolfe the first length tried.
  FIT_OPTION(std::int64_t, max_iter) = 20;  ///< The steps along a direction, in each step().
  FIT_OPTION(std::int64_t, max_eval) = 0;   ///< The calls of the closure, in each step(); max_iter * 5 / 4 if 0.
  FIT_OPTION(double, tolerance_grad) = 1e-7;     ///< It ends where no gradient is larger.
  FIT_OPTION(double, tolerance_change) = 1e-9;   ///< It ends where a step changes no parameter, or the loss, by more.
  FIT_OPTION(std::int64_t, history_size) = 100;  ///< The steps whose gradients make the estimate of the curvature.
  FIT_OPTION(LineSearch, line_search_fn) = LineSearch::none;  ///< How far to go.
};

/// Newton's method with a Hessian that is estimated from the last gradients (Liu & Nocedal 1989): for a few thousand
/// parameters and a loss over all data, without dropout. Formulas, names and defaults are PyTorch's.
///
///     optim::LBFGS optimizer(net.named_parameters());
///     optimizer.step([&] {
///       optimizer.zero_grad();
///       const Tensor loss = nn::mse_loss(net(x), y);
///       loss.backward();
///       return loss;
///     });
class LBFGS {
 public:
  /// Throws Error for options out of range, and for parameters that an Optimizer would refuse or that are of several
  /// types. Frozen parameters may have any floating type.
  explicit LBFGS(const Parameters& parameters, const LBFGSOptions& options = {});

  /// `closure` computes the gradients and gives the loss; it is called several times. Returns its first loss. A
  /// parameter without a gradient is left as it is. Throws Error for a loss that is not one finite number, or a
  /// gradient that is not finite; the parameters are then where the closure was called first.
  double step(const std::function<Tensor()>& closure);
  /// Forgets the gradients.
  void zero_grad();

  /// May be changed between steps.
  LBFGSOptions& options() { return options_; }
  const LBFGSOptions& options() const { return options_; }

  /// What the next step needs: "n_iter", "func_evals", "d", "t", "H_diag", "prev_flat_grad", "prev_loss" and the
  /// history, "old_dirs" and "old_stps" [m, N] of N numbers in all parameters. Of an optimiser that has made no step,
  /// the counts alone.
  StateDict state_dict() const;
  /// Throws Error, and has changed nothing, for names or shapes that don't fit.
  void load_state_dict(const StateDict& state);

 private:
  /// The loss and its gradient at a place.
  struct Point {
    double loss = 0;
    Tensor gradient;  // [N]
  };
  const StateDict::value_type& leading() const;
  Point evaluate(const std::function<Tensor()>& closure) const;
  Tensor gradient() const;
  Tensor values() const;
  void set_values(const Tensor& flat);
  Tensor direction(const Tensor& g);
  struct Found;
  Found search(const std::function<Point(double)>& at, double t, const Point& start, double slope,
               std::int64_t most) const;

  StateDict parameters_;
  LBFGSOptions options_;
  std::int64_t n_iter_ = 0, func_evals_ = 0;
  Tensor d_, previous_;  // the last direction and gradient
  double t_ = 0, H_diag_ = 1, previous_loss_ = 0;
  std::vector<Tensor> old_dirs_, old_stps_;  // differences of gradients and of places
};

}  // namespace fit::optim
