// Connectionist temporal classification.
#include <cmath>
#include <limits>
#include <vector>

#include "common/functions.hpp"
#include "fit/threads/parallel.hpp"
#include "loss/common.hpp"

namespace fit::nn {
namespace {

constexpr double never = -std::numeric_limits<double>::infinity();  // ln 0
using Numbers = std::vector<double>;

// What the recursions read of one sequence: a path goes through the states blank, label, blank, label, …, blank. In a
// step it stays, goes to the next state, or past a blank between different labels.
class Sequence {
 public:
  // log_probs of the first step, and `stride` numbers from step to step.
  template <class T>
  Sequence(const T* log_probs, std::int64_t steps, std::int64_t stride, const std::int64_t* labels, std::int64_t count,
           std::int64_t blank)
      : steps(steps), states(2 * count + 1), state(static_cast<std::size_t>(states), blank) {
    for (std::int64_t i = 0; i < count; ++i) state[2 * i + 1] = labels[i];
    emitted.reserve(static_cast<std::size_t>(steps * states));
    for (std::int64_t t = 0; t < steps; ++t)
      for (const std::int64_t s : state) emitted.push_back(static_cast<double>(log_probs[t * stride + s]));
  }

  const std::int64_t steps, states;
  std::vector<std::int64_t> state;  // its class
  Numbers emitted;                  // [steps, states], the log probability of its class

  // Whether a path may go past state s - 1, from s - 2 to s.
  bool skips(std::int64_t s) const { return s >= 2 && s % 2 == 1 && state[s] != state[s - 2]; }

  // [steps, states]: ln of the sum over all beginnings of paths that are in state s at step t.
  Numbers beginnings() const {
    Numbers a(emitted.size(), never), from(3 * states);
    if (steps == 0) return a;
    for (std::int64_t s = 0; s < std::min<std::int64_t>(2, states); ++s) a[s] = emitted[s];
    for (std::int64_t t = 1; t < steps; ++t) {
      const double* const before = a.data() + (t - 1) * states;
      for (std::int64_t s = 0; s < states; ++s) {
        from[s] = before[s];
        from[states + s] = s >= 1 ? before[s - 1] : never;
        from[2 * states + s] = skips(s) ? before[s - 2] : never;
      }
      double* const now = a.data() + t * states;
      add_up(from, now);
      for (std::int64_t s = 0; s < states; ++s) now[s] += emitted[t * states + s];
    }
    return a;
  }
  // The same of all ends, after step t.
  Numbers ends() const {
    Numbers b(emitted.size(), never), from(3 * states), next(states);
    if (steps == 0) return b;
    for (std::int64_t s = std::max<std::int64_t>(states - 2, 0); s < states; ++s) b[(steps - 1) * states + s] = 0;
    for (std::int64_t t = steps - 1; t > 0; --t) {
      for (std::int64_t s = 0; s < states; ++s) next[s] = b[t * states + s] + emitted[t * states + s];
      for (std::int64_t s = 0; s < states; ++s) {
        from[s] = next[s];
        from[states + s] = s + 1 < states ? next[s + 1] : never;
        from[2 * states + s] = s + 2 < states && skips(s + 2) ? next[s + 2] : never;
      }
      add_up(from, b.data() + (t - 1) * states);
    }
    return b;
  }
  // -ln of the sum over all paths.
  double loss(const Numbers& beginnings) const {
    if (steps == 0) return states == 1 ? 0 : -never;
    const double* const last = beginnings.data() + (steps - 1) * states;
    const double a = last[states - 1], b = states > 1 ? last[states - 2] : never, m = finite(a > b ? a : b);
    return -(m + number::log(number::exp(a - m) + number::exp(b - m)));
  }

 private:
  static double finite(double m) { return m == never ? 0 : m; }
  // to = ln(e^from[0] + e^from[1] + e^from[2]) for from [3, states], which it overwrites.
  void add_up(Numbers& from, double* to) const {
    Numbers most(states);
    for (std::int64_t s = 0; s < states; ++s) {
      const double two = from[s] > from[states + s] ? from[s] : from[states + s];
      most[s] = finite(two > from[2 * states + s] ? two : from[2 * states + s]);
      for (std::int64_t i = s; i < 3 * states; i += states) from[i] -= most[s];
    }
    kernels::function<double>(kernels::Function::exp).forward(from.data(), from.data(), 3 * states, 0);
    for (std::int64_t s = 0; s < states; ++s) to[s] = from[s] + from[states + s] + from[2 * states + s];
    kernels::function<double>(kernels::Function::log).forward(to, to, states, 0);
    for (std::int64_t s = 0; s < states; ++s) to[s] += most[s];
  }
};

// The tensors of a call. log_probs [T, N, C], targets [N, S], lengths [N].
struct Batch {
  const Tensor &log_probs, &targets, &inputs, &lengths;

  template <class T>
  Sequence sequence(std::int64_t n, std::int64_t blank) const {
    const std::int64_t N = log_probs.size(1), C = log_probs.size(2);
    return Sequence(log_probs.data<T>().data() + n * C, steps(n), N * C,
                    targets.data<std::int64_t>().data() + n * targets.size(1), labels(n), blank);
  }
  std::int64_t steps(std::int64_t n) const { return inputs.data<std::int64_t>()[n]; }
  std::int64_t labels(std::int64_t n) const { return lengths.data<std::int64_t>()[n]; }
};

// d loss / d log_probs is minus the probability that a path is there. Infinite losses have NaN, or 0.
template <class T>
void sequence_gradient(const Sequence& q, double dy, bool zero_infinity, std::int64_t stride, T* dx) {
  const Numbers a = q.beginnings(), b = q.ends();
  const double loss = q.loss(a);
  if (zero_infinity && loss == -never) return;
  Numbers p(q.emitted.size());
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = a[i] + b[i] + loss;
  kernels::function<double>(kernels::Function::exp).forward(p.data(), p.data(), q.steps * q.states, 0);
  for (std::int64_t t = 0; t < q.steps; ++t)
    for (std::int64_t s = 0; s < q.states; ++s) dx[t * stride + q.state[s]] -= static_cast<T>(dy * p[t * q.states + s]);
}

Tensor ctc_gradient(const Batch& batch, const Tensor& dy, std::int64_t blank, bool zero_infinity) {
  Tensor dx = zeros(batch.log_probs.shape(), dy.dtype());
  const std::int64_t N = dy.numel(), C = dx.size(2);
  dispatch_compute_floating(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const to = dx.fresh<T>();
    parallel_for(N, 1, [&](std::int64_t n, std::int64_t end) {
      for (; n < end; ++n)
        sequence_gradient(batch.sequence<T>(n, blank), dy.data<T>()[n], zero_infinity, N * C, to + n * C);
    });
  });
  return dx;
}

// The loss of each sequence, [N].
Tensor ctc_losses(const Batch& batch, const CTCOptions& o) {
  const std::int64_t blank = o.blank();
  const bool zero_infinity = o.zero_infinity();
  Tensor y = Tensor::empty({batch.log_probs.size(1)}, batch.log_probs.dtype());
  dispatch_compute_floating(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const to = y.fresh<T>();
    parallel_for(y.numel(), 1, [&](std::int64_t n, std::int64_t end) {
      for (; n < end; ++n) {
        const Sequence q = batch.sequence<T>(n, blank);
        const double loss = q.loss(q.beginnings());
        to[n] = static_cast<T>(zero_infinity && loss == -never ? 0 : loss);
      }
    });
  });
  return record("ctc_loss", {batch.log_probs}, std::move(y),
                keep::inputs | keep::saved(batch.targets, batch.inputs, batch.lengths),
                [blank, zero_infinity](Backward& b) {
                  b.once_only();
                  const Tensor x = b.x(0), targets = b.saved(0), inputs = b.saved(1), lengths = b.saved(2);
                  b.give(0, ctc_gradient({x, targets, inputs, lengths}, b.dy(), blank, zero_infinity));
                });
}

void expect_lengths(const char* name, const Tensor& lengths, std::int64_t n, std::int64_t most, const char* axis) {
  check::dtype("ctc_loss", name, lengths, int64);
  check::shape("ctc_loss", name, lengths, {n});
  for (std::int64_t i = 0; i < n; ++i)
    if (const std::int64_t length = lengths.data<std::int64_t>()[i]; length < 0 || length > most)
      check::fail("ctc_loss", name, '[', i, "] is ", length, ": it must be in 0 … ", most, ", the ", axis);
}

void expect_batch(const Batch& batch, std::int64_t blank) {
  constexpr const char* op = "ctc_loss";
  const Tensor &x = batch.log_probs, &targets = batch.targets;
  check::floating(op, "log_probs", x);
  check::dtype(op, "targets", targets, int64);
  if (x.rank() != 3 || targets.rank() != 2 || targets.size(0) != x.size(1))
    check::fail(op, "log_probs is ", x.shape(), ", targets ", targets.shape(),
                ": they must be [T, N, C] and [N, S]; transpose(x, 0, 1) of x [N, T, C] puts the steps first");
  const std::int64_t N = x.size(1), C = x.size(2);
  if (blank < 0 || blank >= C) check::fail(op, "blank is ", blank, ": it must be in 0 … ", C - 1);
  expect_lengths("input_lengths", batch.inputs, N, x.size(0), "steps of log_probs");
  expect_lengths("target_lengths", batch.lengths, N, targets.size(1), "columns of targets");
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t s = 0; s < batch.labels(n); ++s)
      if (const auto id = targets.data<std::int64_t>()[n * targets.size(1) + s]; id < 0 || id >= C || id == blank)
        check::fail(op, "targets[", n, "][", s, "] is ", id, ": it must be in 0 … ", C - 1, ", and not blank (", blank,
                    ")");
  if (any(x > 1e-3).item<bool>())
    check::fail(op, "log_probs has numbers above 0: it must be log probabilities, log_softmax(logits) or log(p)");
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCOptions& o) {
  return with_precision(Precision::float32, {log_probs}, [&](const Tensor& log_probs) {
    const Batch batch{log_probs, targets, input_lengths, target_lengths};
    expect_batch(batch, o.blank());
    const Tensor losses = ctc_losses(batch, o);
    if (o.reduction() != Reduction::mean) return reduced(losses, o.reduction());
    return reduced(losses / maximum(target_lengths, ones_like(target_lengths)).to(losses.dtype()), o.reduction());
  });
}

std::string describe(const CTCOptions& o) {
  return joined("blank=", o.blank(), ", zero_infinity=", o.zero_infinity(), ", ", describe(o.reduction()));
}

}  // namespace fit::nn
