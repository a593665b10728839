#include "fit/nn/optim/more/lbfgs.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/lent.hpp"
#include "common/load.hpp"
#include "common/rollback.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "optim/named.hpp"
#include "optim/ranges.hpp"
#include "tensor/check.hpp"

namespace fit::optim {

namespace {

constexpr const char* lbfgs_op = "LBFGS";

double product(const Tensor& a, const Tensor& b) {
  const Autocast off(float32);
  return dot(a, b).item();
}
double largest(const Tensor& x) { return x.numel() == 0 ? 0 : max(abs(x)).item(); }

// The minimum of the cubic through the losses and slopes of two points, clamped to the bounds. The middle of the bounds
// if the cubic has no minimum.
template <class Point>
double cubic_minimum(const Point& one, const Point& other, const std::optional<std::pair<double, double>>& given = {}) {
  const Point &a = one.t <= other.t ? one : other, &b = one.t <= other.t ? other : one;
  const auto [low, high] = given.value_or(std::pair(a.t, b.t));
  const double d1 = one.slope + other.slope - 3 * (one.loss - other.loss) / (one.t - other.t);
  const double squared = d1 * d1 - one.slope * other.slope;
  if (!(squared >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(squared);
  const double t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2));
  return std::min(std::max(t, low), high);
}

}  // namespace

LBFGS::LBFGS(const Parameters& parameters, const LBFGSOptions& options)
    : parameters_(checked_parameters(lbfgs_op, parameters, {})), options_(options) {
  if (parameters_.empty()) check::fail(lbfgs_op, "there are no parameters: there is nothing to train");
  const auto& [first, one] = leading();
  if (!one.requires_grad()) fail_all_frozen(lbfgs_op);
  for (const auto& [name, p] : parameters_)
    if (p.requires_grad() && p.dtype() != one.dtype())
      check::fail(lbfgs_op, "the parameter ", name, " is ", p.dtype(), ", ", first, ' ', one.dtype(),
                  ": all must have one type");
  held_.add(parameters_);
}

void LBFGS::zero_grad() {
  for (auto& [name, p] : parameters_) p.zero_grad();
}

// The first trained parameter. All trained parameters have its type.
const StateDict::value_type& LBFGS::leading() const {
  const auto trained = [](const auto& named) { return named.second.requires_grad(); };
  const auto found = std::find_if(parameters_.begin(), parameters_.end(), trained);
  return found == parameters_.end() ? parameters_[0] : *found;
}

Tensor LBFGS::gradient() const {
  std::vector<Tensor> all;
  for (const auto& [name, p] : parameters_) {
    const bool trained = p.has_grad() && p.requires_grad();
    all.push_back(trained ? p.grad().flatten() : zeros({p.numel()}, leading().second.dtype()));
  }
  return cat(all);
}

Tensor LBFGS::values() const {
  std::vector<Tensor> all;
  for (const auto& [name, p] : parameters_) all.push_back(p.detach().to(leading().second.dtype()).flatten());
  return cat(all);
}

namespace {

// Those of the trained parameters for which takes(p).
template <class Takes>
void copy_values(StateDict& parameters, const Tensor& flat, const Takes& takes) {
  std::int64_t at = 0;
  for (auto& [name, p] : parameters) {
    if (p.requires_grad() && takes(p)) p.copy_(slice(flat, 0, at, at + p.numel()).reshape(p.shape()));
    at += p.numel();
  }
}

}  // namespace

void LBFGS::set_values(const Tensor& flat) {
  copy_values(parameters_, flat, [](const Tensor& p) { return p.has_grad(); });
}

void LBFGS::restore_values(const Tensor& flat) {
  copy_values(parameters_, flat, [](const Tensor&) { return true; });
}

LBFGS::Point LBFGS::evaluate(const std::function<Tensor()>& closure) {
  Point point;
  {
    const EnableGrad recording;
    zero_grad();  // gradients of before would be added, or stand for those that the closure does not compute
    const Tensor loss = closure();
    if (!loss.defined() || loss.numel() != 1)
      check::fail(lbfgs_op, "the loss is ", loss.defined() ? "of shape " + loss.shape().str() : "undefined",
                  ": the closure must give one number");
    point.loss = loss.to(float64).item();
  }
  point.gradient = gradient();
  const double max_gradient = largest(point.gradient);
  if (!std::isfinite(point.loss) || !std::isfinite(max_gradient))
    check::fail(lbfgs_op, "the loss is ", point.loss, ", the largest gradient ", max_gradient,
                ": both must be finite; a smaller lr, or LineSearch::strong_wolfe, may help");
  if (std::none_of(parameters_.begin(), parameters_.end(),
                   [](const auto& entry) { return entry.second.requires_grad() && entry.second.has_grad(); }))
    check::fail(lbfgs_op, "no trained parameter has a gradient after the closure, whose loss is ", point.loss,
                ": it must compute the loss without NoGrad, and call loss.backward()");
  ++func_evals_;
  return point;
}

// -H g, where H is the inverse Hessian estimated from the history.
Tensor LBFGS::direction(const Tensor& g) {
  if (n_iter_ == 1) {
    old_dirs_.clear(), old_stps_.clear();
    H_diag_ = 1;
    return -g;
  }
  const Tensor y = g - previous_, s = d_ * t_;
  const double ys = product(y, s);
  if (ys > 1e-10) {
    if (static_cast<std::int64_t>(old_dirs_.size()) == options_.history_size())
      old_dirs_.erase(old_dirs_.begin()), old_stps_.erase(old_stps_.begin());
    old_dirs_.push_back(y);
    old_stps_.push_back(s);
    H_diag_ = ys / product(y, y);
  }
  const std::size_t n = old_dirs_.size();
  std::vector<double> alpha(n), rho(n);
  Tensor q = -g;
  for (std::size_t i = n; i-- > 0;) {
    rho[i] = 1 / product(old_dirs_[i], old_stps_[i]);
    alpha[i] = product(old_stps_[i], q) * rho[i];
    q.add_(old_dirs_[i] * -alpha[i]);
  }
  q.mul_(H_diag_);
  for (std::size_t i = 0; i < n; ++i) {
    const double beta = product(old_dirs_[i], q) * rho[i];
    q.add_(old_stps_[i] * (alpha[i] - beta));
  }
  return q;
}

// Finds a step length t with loss <= start + c1 t slope and |slope at t| <= c2 |slope|: first a bracket of t, then t.
struct LBFGS::Search {
  static constexpr double c1 = 1e-4, c2 = 0.9;
  bool falls(const Point& p) const { return p.loss <= start.loss + c1 * p.t * start.slope; }
  bool flat(const Point& p) const { return std::abs(p.slope) <= -c2 * start.slope; }

  Point run(double t) {
    std::vector<Point> bracket = find_bracket(t);
    return bracket.size() == 1 ? bracket[0] : narrowed(bracket);
  }

  // One point that is good, or two around such a point.
  std::vector<Point> find_bracket(double t) {
    Point before = start, now = at(t);
    for (; iteration < max_evaluations; ++iteration) {
      if (!falls(now) || (iteration > 1 && now.loss >= before.loss) || (!flat(now) && now.slope >= 0))
        return {before, now};
      if (flat(now)) return {now};
      const double further = cubic_minimum(before, now, std::pair(now.t + 0.01 * (now.t - before.t), now.t * 10));
      before = now;
      now = at(further);
    }
    return {start, now};
  }

  // The minimum of the cubic, but not close to an end of the bracket twice in a row.
  double next_inside(const std::vector<Point>& bracket) {
    const double next = cubic_minimum(bracket[0], bracket[1]);
    const double left = std::min(bracket[0].t, bracket[1].t), right = std::max(bracket[0].t, bracket[1].t);
    const double margin = 0.1 * (right - left);
    const bool again = close_to_end;
    close_to_end = std::min(right - next, next - left) < margin;
    if (!close_to_end || (!again && next < right && next > left)) return next;
    close_to_end = false;
    return std::abs(next - right) < std::abs(next - left) ? right - margin : left + margin;
  }

  Point narrowed(std::vector<Point>& bracket) {
    constexpr double smallest = 1e-9;
    std::size_t low = bracket[0].loss <= bracket[1].loss ? 0 : 1, high = 1 - low;
    for (bool done = false; !done && iteration < max_evaluations; ++iteration) {
      if (std::abs(bracket[1].t - bracket[0].t) * direction_max < smallest) break;
      const Point now = at(next_inside(bracket));
      if (!falls(now) || now.loss >= bracket[low].loss) {
        bracket[high] = now;
        low = bracket[0].loss <= bracket[1].loss ? 0 : 1;
        high = 1 - low;
      } else {
        done = flat(now);
        if (!done && now.slope * (bracket[high].t - bracket[low].t) >= 0) bracket[high] = bracket[low];
        bracket[low] = now;
      }
    }
    return bracket[low];
  }

  const std::function<Point(double)>& at;
  const Point& start;
  const std::int64_t max_evaluations;
  const double direction_max;
  std::int64_t iteration = 0;
  bool close_to_end = false;  // the last point was
};

// Moves along the direction, and sets t_.
LBFGS::Point LBFGS::search(const std::function<Tensor()>& closure, const Point& start, std::int64_t max_evaluations) {
  const Tensor from = values();
  const std::function<Point(double)> at = [&](double t) {
    set_values(from + d_ * t);
    Point there = evaluate(closure);
    restore_values(from);
    there.t = t;
    there.slope = product(there.gradient, d_);
    return there;
  };
  const Point found = Search{at, start, max_evaluations, largest(d_)}.run(t_);
  t_ = found.t;
  set_values(from + d_ * t_);
  return found;
}

void LBFGS::check_options() const {
  const LBFGSOptions& o = options_;
  check_not_negative(lbfgs_op, "lr", o.lr());
  check_not_negative(lbfgs_op, "tolerance_grad", o.tolerance_grad());
  check_not_negative(lbfgs_op, "tolerance_change", o.tolerance_change());
  if (o.max_iter() < 1) check::fail(lbfgs_op, "max_iter is ", o.max_iter(), ": it must be positive");
  check::not_negative(lbfgs_op, "max_eval", o.max_eval());
  if (o.history_size() < 1) check::fail(lbfgs_op, "history_size is ", o.history_size(), ": it must be positive");
}

double LBFGS::step(const std::function<Tensor()>& closure) {
  const LBFGSOptions& o = options_;
  check_options();
  if (!closure) check::fail(lbfgs_op, "the closure is empty: it must compute the gradients and give the loss");
  const std::int64_t max_evaluations = o.max_eval() > 0 ? o.max_eval() : o.max_iter() * 5 / 4;
  held_.expect(lbfgs_op, "optimiser");
  for (const auto& [name, p] : parameters_) {
    check_trainable(lbfgs_op, name, p);  // p may have been unfrozen
    nn::check_not_lent(lbfgs_op, name, p, "would undo the step");
  }

  const NoGrad no_grad;
  const LBFGS before(*this);
  const Tensor first_values = values();
  const Rollback all_or_nothing([&] {
    restore_values(first_values);
    *this = before;
  });
  Point now = evaluate(closure);
  const double first = now.loss;
  if (largest(now.gradient) <= o.tolerance_grad()) return first;
  for (std::int64_t iteration = 1; iteration <= o.max_iter(); ++iteration) {
    ++n_iter_;
    d_ = direction(now.gradient);
    previous_ = now.gradient;
    previous_loss_ = now.loss;
    t_ = n_iter_ == 1 ? std::min(1., 1 / sum(abs(now.gradient)).item()) * o.lr() : o.lr();
    now.t = 0;
    now.slope = product(now.gradient, d_);
    if (now.slope > -o.tolerance_change()) break;

    const auto evaluations = [&] { return func_evals_ - before.func_evals_; };
    if (o.line_search_fn() == LineSearch::strong_wolfe) {
      now = search(closure, now, max_evaluations - evaluations());
    } else {
      set_values(values() + d_ * t_);
      if (iteration < o.max_iter()) now = evaluate(closure);
    }
    if (evaluations() >= max_evaluations || largest(now.gradient) <= o.tolerance_grad() ||
        largest(d_) * std::abs(t_) <= o.tolerance_change() ||
        std::abs(now.loss - previous_loss_) < o.tolerance_change())
      break;
  }
  return first;
}

// ---- state --------------------------------------------------------------------------------------------------------

StateDict LBFGS::state_dict() const {
  StateDict state{{"n_iter", full({}, n_iter_, int64)}, {"func_evals", full({}, func_evals_, int64)}};
  if (n_iter_ == 0) return state;
  state.emplace_back("d", d_);
  state.emplace_back("t", full({}, t_, float64));
  state.emplace_back("H_diag", full({}, H_diag_, float64));
  state.emplace_back("prev_flat_grad", previous_);
  state.emplace_back("prev_loss", full({}, previous_loss_, float64));
  const Tensor none = zeros({0, d_.numel()}, d_.dtype());
  state.emplace_back("old_dirs", old_dirs_.empty() ? none : stack(old_dirs_));
  state.emplace_back("old_stps", old_stps_.empty() ? none : stack(old_stps_));
  return state;
}

void LBFGS::load_state_dict(const StateDict& state) {
  const NoGrad no_grad;
  LBFGS loaded(*this);
  Tensor steps = zeros({}, int64), evaluations = zeros({}, int64);
  StateDict mine{{"n_iter", steps}, {"func_evals", evaluations}};
  Tensor t = zeros({}, float64), scale = t.clone(), loss = t.clone(), dirs, stps;
  const bool begun = std::any_of(state.begin(), state.end(), [](const auto& entry) { return entry.first == "d"; });
  if (begun) {
    const Tensor flat = values();
    std::int64_t rows = 0;
    for (const auto& [name, x] : state)
      if (name == "old_dirs" && x.defined() && x.rank() == 2) rows = x.size(0);
    loaded.d_ = zeros_like(flat), loaded.previous_ = zeros_like(flat);
    dirs = zeros({rows, flat.numel()}, flat.dtype()), stps = zeros_like(dirs);
    const StateDict more{
        {"d", loaded.d_},    {"t", t},           {"H_diag", scale}, {"prev_flat_grad", loaded.previous_},
        {"prev_loss", loss}, {"old_dirs", dirs}, {"old_stps", stps}};
    mine.insert(mine.end(), more.begin(), more.end());
  }
  nn::load_values("load_state_dict", lbfgs_op, mine, state);
  loaded.n_iter_ = steps.item<std::int64_t>();
  loaded.func_evals_ = evaluations.item<std::int64_t>();
  if (loaded.n_iter_ < 0 || loaded.func_evals_ < 0 || (loaded.n_iter_ > 0) != begun)
    check::fail("load_state_dict", "n_iter is ", loaded.n_iter_, ", func_evals ", loaded.func_evals_,
                begun ? ", and d is there" : ", and d is not there", ": that is no state of LBFGS; nothing was loaded");
  loaded.old_dirs_.clear(), loaded.old_stps_.clear();
  if (begun) {
    loaded.t_ = t.item(), loaded.H_diag_ = scale.item(), loaded.previous_loss_ = loss.item();
    for (std::int64_t i = 0; i < dirs.size(0); ++i)
      loaded.old_dirs_.push_back(dirs[i]), loaded.old_stps_.push_back(stps[i]);
  }
  *this = loaded;
}

}  // namespace fit::optim
