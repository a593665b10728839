// batch_norm and group_norm: one pass over x for the mean, one for the variance, one for y.
#include "ops/network/channel_norm.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/scratch.hpp"
#include "fit/matmul/reproducible.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/rows/channel_norm.hpp"
#include "ops/common/composed.hpp"
#include "ops/common/precision.hpp"
#include "ops/reduce/reduction.hpp"
#include "ops/reduce/slice_scale.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

/// x, weight, bias, and the mean and the variance that were given.
using Operands = std::vector<Tensor>;
enum Operand { of_x, of_weight, of_bias, of_mean, of_var };

/// x [N, C, ...] as [outer, numbers, inner], with a mean, a scale and a shift for each of `numbers`. Number p is of
/// channel p % channels, and of slice p / together: a slice has one mean and variance.
///     batch_norm: [N, C, inner], each channel a slice;  group_norm: [1, N C, inner], a slice has C / groups channels
struct ChannelLayout {
  std::int64_t outer, numbers, inner, together, channels;

  std::int64_t slices() const { return numbers / together; }
  std::int64_t slice_size() const { return outer * together * inner; }
  /// Whether the slices are contiguous, worth a loop each, and enough for many threads. In the mode Reproducible their
  /// number, which grows with the batch, decides nothing.
  bool one_by_one() const { return outer == 1 && slice_size() >= 256 && (slices() >= 16 || reproducible()); }
  /// Calls f(slice, number, its channel) for the numbers of slices `first` … `last` - 1.
  template <class F>
  void each_number(std::int64_t first, std::int64_t last, const F& f) const {
    for (std::int64_t s = first; s < last; ++s) {
      std::int64_t channel = s * together % channels;
      for (std::int64_t p = s * together; p < (s + 1) * together; ++p) f(s, p, channel++);
    }
  }
  /// x [outer, count, rest], to be reduced to one number for each of `count`: the slices or the numbers.
  Tensor with_axis_of(const Tensor& x, std::int64_t count) const {
    return x.alias(Shape{outer, count, numbers / count * inner});
  }
  /// The rows of all elements for the kernels: along the channels if these are the last axis.
  kernels::NumberedRows rows() const {
    const std::int64_t n = one_by_one() ? together : channels;
    return inner == 1 ? kernels::NumberedRows{0, outer * numbers / n, n, numbers, true}
                      : kernels::NumberedRows{0, outer * numbers, inner, numbers, false};
  }
};

const Axes outer_and_inner{0, 2};

/// Sums over x, fills lists of numbers by the sums, and calls a kernel that reads x again: slice by slice, which stay
/// in the caches meanwhile, or for all of x.
template <class Pass>
void run(Pass& pass, const ChannelLayout& l) {
  constexpr std::int64_t work = 1 << 14;  // minimum of elements for a thread
  kernels::NumberedRows all = l.rows();
  const auto rows = [&all](std::int64_t first, std::int64_t last) {
    return kernels::NumberedRows{first, last, all.n, all.count, all.across};
  };
  if (l.one_by_one()) {
    const std::int64_t each = all.last / l.slices();
    parallel_for(l.slices(), std::max<std::int64_t>(1, work / l.slice_size()),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t s = begin; s < end; ++s) {
                     pass.sum_slice(s);
                     pass.fill(s, s + 1);
                     pass.call(rows(s * each, (s + 1) * each));
                   }
                 });
  } else {
    pass.sum();
    pass.fill(0, l.slices());
    parallel_for(all.last, std::max<std::int64_t>(1, work / all.n),
                 [&](std::int64_t begin, std::int64_t end) { pass.call(rows(begin, end)); });
  }
}

/// Lists for the kernels, one after the other, with a number for each of l.numbers.
template <class T>
class Lists {
 public:
  Lists(const ChannelLayout& l, int lists) : numbers_(l.numbers), memory_(lists * l.numbers) {}
  const T* get() const { return memory_.get(); }
  void put(int list, std::int64_t p, double number) { memory_.get()[list * numbers_ + p] = static_cast<T>(number); }
  /// A mean in double as the sum of two T, lists 0 and 1.
  void put_mean(std::int64_t p, double mean) {
    const T high = static_cast<T>(mean);
    put(0, p, static_cast<double>(high));
    put(1, p, mean - static_cast<double>(high));
  }

 private:
  std::int64_t numbers_;
  kernels::Scratch<T> memory_;
};

/// The elements of t as double, or `absent` if it is undefined.
template <class T>
class NumbersOr {
 public:
  NumbersOr(const Tensor& t, double absent) : data_(t.defined() ? t.data<T>().data() : nullptr), absent_(absent) {}
  double operator[](std::int64_t i) const { return data_ ? static_cast<double>(data_[i]) : absent_; }

 private:
  const T* data_;
  double absent_;
};

/// float64, for each slice.
struct ChannelMoments {
  Tensor mean, var, rstd;
};

template <class T>
class ChannelForward {
 public:
  ChannelForward(const Operands& in, const ChannelLayout& l, double eps)
      : in_(in), l_(l), eps_(eps), given_(in[of_mean].defined()), x_(in[of_x].data<T>().data()) {
    moments.mean = Tensor::empty({l_.slices()}, float64);
    moments.var = Tensor::empty({l_.slices()}, float64);
    moments.rstd = Tensor::empty({l.slices()}, float64);
    y = Tensor::empty(in[of_x].shape(), in[of_x].dtype());
    means_ = moments.mean.fresh<double>();
    vars_ = moments.var.fresh<double>();
    rstds_ = moments.rstd.fresh<double>();
    y_ = y.fresh<T>();
    nontemporal_ = kernels::stores_nontemporal(y_, l.rows().last, l.rows().n);
    if (given_) {
      std::copy_n(in[of_mean].data<T>().data(), l.slices(), means_);
      std::copy_n(in[of_var].data<T>().data(), l.slices(), vars_);
    }
    run(*this, l);
  }

  void sum_slice(std::int64_t s) {
    if (given_) return;
    const std::int64_t n = l_.slice_size();
    const auto mean_of = [&](kernels::Fold<T> kernel, const double* centre) {
      double total = 0;
      kernel(&total, x_ + s * n, centre, 1, n, n, 1);
      return total / static_cast<double>(n);
    };
    means_[s] = mean_of(kernels::reduce<T>().sum, nullptr);
    vars_[s] = mean_of(kernels::reduce<T>().squares, means_ + s);
  }

  void sum() {
    if (given_) return;
    const Tensor view = l_.with_axis_of(in_[of_x], l_.slices());
    const Reduction r("mean", view, outer_and_inner);
    const auto fold = [&](kernels::Fold<T> kernel, const double* centre, double* to) {
      fold_floating<T>(
          r, view, 0.0, kernel, centre, std::plus<>(),
          [to, n = l_.slice_size()](std::int64_t s, double total) { to[s] = total / static_cast<double>(n); });
    };
    fold(kernels::reduce<T>().sum, nullptr, means_);
    fold(kernels::reduce<T>().squares, means_, vars_);
  }

  void fill(std::int64_t first, std::int64_t last) {
    const NumbersOr<T> weight(in_[of_weight], 1), bias(in_[of_bias], 0);
    for (std::int64_t s = first; s < last; ++s) rstds_[s] = 1 / std::sqrt(vars_[s] + eps_);
    l_.each_number(first, last, [&](std::int64_t s, std::int64_t p, std::int64_t channel) {
      lists_.put_mean(p, means_[s]);
      lists_.put(2, p, rstds_[s] * weight[channel]);
      lists_.put(3, p, bias[channel]);
    });
  }

  void call(const kernels::NumberedRows& rows) const {
    kernels::channel_norm<T>().forward(y_, x_, lists_.get(), rows, nontemporal_);
  }

  /// Whether the squares fit, so that y is right.
  bool fits() const { return given_ || std::all_of(rstds_, rstds_ + l_.slices(), squares_fit<T>); }

  Tensor y;
  ChannelMoments moments;

 private:
  const Operands& in_;
  const ChannelLayout& l_;
  double eps_;
  bool given_, nontemporal_;
  const T* x_;
  T* y_;
  double *means_, *vars_, *rstds_;
  Lists<T> lists_{l_, 4};
};

/// With h = (x - mean) rstd, g = dy weight, and means over a slice:
///   dx = rstd (g - mean(g) - h mean(g h)), or rstd g if mean and variance were given;
///   dweight = sum(dy h), dbias = sum(dy) over a channel;  dmean = -sum(g) rstd, dvar = -sum(g h) rstd^2 / 2 if given.
/// All follow from two sums for each number: of dy, and of dy (x - mean).
template <class T>
class ChannelGradients {
 public:
  ChannelGradients(Backward& b, const ChannelLayout& l, bool statistics_given)
      : b_(b),
        l_(l),
        given_(statistics_given),
        in_x_(b.x(of_x)),
        in_dy_(b.dy()),
        in_weight_(b.x(of_weight)),
        mean_(b.saved(0)),
        rstd_(b.saved(1)),
        x_(in_x_.template data<T>().data()),
        dy_(in_dy_.template data<T>().data()),
        rstds_(rstd_.data<double>().data()),
        weight_(in_weight_, 1) {
    const double* const means = mean_.data<double>().data();
    l.each_number(0, l.slices(), [&](std::int64_t s, std::int64_t p, std::int64_t) { centres_.get()[p] = means[s]; });
    if (b.wants(of_x)) {
      dx_ = Tensor::empty(in_x_.shape(), in_x_.dtype());
      to_ = dx_.fresh<T>();
      nontemporal_ = kernels::stores_nontemporal(to_, l.rows().last, l.rows().n);
    }
    run(*this, l);
  }

  void sum_slice(std::int64_t s) {
    if (!sums_needed()) return;
    const std::int64_t p = s * l_.together, at = p * l_.inner, step = l_.inner == 1 ? l_.together : 1;
    std::fill_n(sums_.get() + p, l_.together, 0.0);
    std::fill_n(products_.get() + p, l_.together, 0.0);
    const auto& kernels = kernels::reduce<T>();
    kernels.sum(sums_.get() + p, dy_ + at, nullptr, l_.together, l_.inner, l_.inner, step);
    kernels::channel_norm<T>().products(products_.get() + p, x_ + at, dy_ + at, centres_.get() + p, l_.together,
                                        l_.inner, l_.inner, step);
  }

  void sum() {
    if (!sums_needed()) return;
    const Tensor seed = l_.with_axis_of(in_dy_, l_.numbers);
    const Reduction r("sum", seed, outer_and_inner);
    const auto to = [](double* totals) { return [totals](std::int64_t p, double total) { totals[p] = total; }; };
    fold_floating<T>(r, seed, 0.0, kernels::reduce<T>().sum, nullptr, std::plus<>(), to(sums_.get()));
    r.fold<double>(
        0.0,
        [this](double* acc, std::int64_t at, std::int64_t first, auto... block) {
          kernels::channel_norm<T>().products(acc, x_ + at, dy_ + at, centres_.get() + first, block...);
        },
        std::plus<>(), each_output<double>(to(products_.get())));
  }

  void fill(std::int64_t first, std::int64_t last) {
    if (!to_) return;
    const double* const sums = sums_.get();
    if (given_) {
      l_.each_number(first, last, [&](std::int64_t s, std::int64_t p, std::int64_t channel) {
        lists_.put(0, p, 0), lists_.put(1, p, 0);
        lists_.put(2, p, rstds_[s] * weight_[channel]);
        lists_.put(3, p, -0.0);
      });
      return;
    }
    const auto n = static_cast<double>(l_.slice_size());
    for (std::int64_t s = first; s < last; ++s) {
      double of_g = 0, of_gh = 0;  // means over the slice
      l_.each_number(s, s + 1, [&](std::int64_t, std::int64_t p, std::int64_t channel) {
        of_g += sums[p] * weight_[channel] / n;
        of_gh += products_.get()[p] * weight_[channel] * rstds_[s] / n;
      });
      l_.each_number(s, s + 1, [&](std::int64_t, std::int64_t p, std::int64_t channel) {
        lists_.put_mean(p, centres_.get()[p]);
        lists_.put(2, p, rstds_[s]);
        lists_.put(3, p, rstds_[s] * weight_[channel]);
        lists_.put(4, p, rstds_[s] * of_gh);
        lists_.put(5, p, rstds_[s] * of_g);
      });
    }
  }

  // By given statistics, dx = dy (rstd weight) doesn't read x, which need not be finite.
  void call(const kernels::NumberedRows& rows) const {
    const auto& kernels = kernels::channel_norm<T>();
    if (to_ && given_)
      kernels.forward(to_, dy_, lists_.get(), rows, nontemporal_);
    else if (to_)
      kernels.backward(to_, x_, dy_, lists_.get(), rows, nontemporal_);
  }

  void give() {
    if (to_) b_.give(of_x, std::move(dx_));
    const double *const sums = sums_.get(), *const products = products_.get();
    give_total(of_weight, [=](double rstd, std::int64_t p, double) { return products[p] * rstd; });
    give_total(of_bias, [=](double, std::int64_t p, double) { return sums[p]; });
    if (!given_) return;
    give_total(of_mean, [=](double rstd, std::int64_t p, double weight) { return -sums[p] * weight * rstd; });
    give_total(of_var, [=](double rstd, std::int64_t p, double weight) {
      return -0.5 * products[p] * weight * rstd * rstd * rstd;
    });
  }

 private:
  /// A frozen layer by given statistics hands dy on alone.
  bool sums_needed() const {
    return !given_ || b_.wants(of_weight) || b_.wants(of_bias) || b_.wants(of_mean) || b_.wants(of_var);
  }

  /// Gives the sum of of(rstd, number, weight) over the numbers of a channel.
  template <class Of>
  void give_total(int input, const Of& of) {
    if (!b_.wants(input)) return;
    std::vector<double> totals(static_cast<std::size_t>(l_.channels));
    l_.each_number(0, l_.slices(), [&](std::int64_t s, std::int64_t p, std::int64_t channel) {
      totals[static_cast<std::size_t>(channel)] += of(rstds_[s], p, weight_[channel]);
    });
    Tensor g = Tensor::empty({l_.channels}, in_x_.dtype());
    std::transform(totals.begin(), totals.end(), g.fresh<T>(), [](double total) { return static_cast<T>(total); });
    b_.give(input, std::move(g));
  }

  Backward& b_;
  const ChannelLayout& l_;
  bool given_, nontemporal_ = false;
  Tensor in_x_, in_dy_, in_weight_, mean_, rstd_, dx_;
  const T *x_, *dy_;
  T* to_ = nullptr;  // null: dx is not needed
  const double* rstds_;
  NumbersOr<T> weight_;
  kernels::Scratch<double> centres_{l_.numbers}, sums_{l_.numbers}, products_{l_.numbers};
  Lists<T> lists_{l_, 6};
};

// ---- composed of operations: higher derivatives, and slices whose squares don't fit (slice_scale.hpp) -------------

// Reshapes v [C] to broadcast along axis 1 of x.
Tensor along_channels(const Tensor& v, const Tensor& x) {
  Shape shape{v.numel()};
  for (int a = 2; a < x.rank(); ++a) shape = shape.inserted(a - 1, 1);
  return reshape(v, shape);
}

Tensor composed_statistics(const Tensor& x, double eps) {
  const auto average = [](const Tensor& t) { return fit::mean(t, outer_and_inner, keepdims); };
  Tensor centred = x - average(x), variance = average(centred * centred) + eps;
  if (const Tensor s = slice_scale(x, variance.shape(), sqrt(variance.detach())); s.defined()) {
    const Tensor near_one = x * s;
    centred = near_one - average(near_one);
    variance = average(centred * centred) + square(s * std::sqrt(eps));
  }
  return centred * rsqrt(variance);
}

Tensor composed_norm(const Operands& in, const ChannelLayout& l, double eps) {
  const Tensor& x = in[of_x];
  Tensor y;
  if (in[of_mean].defined())
    y = (x - along_channels(in[of_mean], x)) * rsqrt(along_channels(in[of_var], x) + eps);
  else if (x.numel() == 0)
    y = x.clone();
  else
    y = reshape(composed_statistics(reshape(x, Shape{l.outer, l.slices(), l.together * l.inner}), eps), x.shape());
  if (in[of_weight].defined()) y = y * along_channels(in[of_weight], x);
  if (in[of_bias].defined()) y = y + along_channels(in[of_bias], x);
  return y;
}

// ---- operations ---------------------------------------------------------------------------------------------------

// Returns C of x [N, C, ...], after the checks that both norms share.
std::int64_t channels_of(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check::floating(op, "x", x);
  if (x.rank() < 2) check::fail(op, "x has shape ", x.shape(), ": it must be [N, C, ...]");
  const std::int64_t c = x.shape()[1];
  if (weight.defined()) check::floating(op, "weight", weight), check::shape(op, "weight", weight, {c});
  if (bias.defined()) check::floating(op, "bias", bias), check::shape(op, "bias", bias, {c});
  check::not_negative(op, "eps", eps);
  return c;
}

/// `moments`: takes them if it isn't null.
Tensor channel_norm(const detail::OpName& name, Operands in, const ChannelLayout& l, double eps,
                    ChannelMoments* moments = nullptr) {
  DType t = in[of_x].dtype();
  for (const Tensor& x : in)
    if (x.defined()) t = promote(t, x.dtype());
  for (Tensor& x : in)
    if (x.defined()) x = x.to(t);
  if (in[of_x].numel() == 0) return composed_norm(in, l, eps);
  Tensor y;
  dispatch_compute_floating(t, [&](auto zero) {
    using T = decltype(zero);
    ChannelForward<T> f(in, l, eps);
    if (moments) *moments = f.moments;
    if (!f.fits()) {
      y = composed_norm(in, l, eps);
      return;
    }
    y = record(name, in, std::move(f.y), keep::inputs | keep::saved(f.moments.mean, f.moments.rstd),
               [l, eps, given = in[of_mean].defined()](Backward& b) {
                 if (b.recording())
                   give_by_decomposition(b, [&](const Operands& x) { return Operands{composed_norm(x, l, eps)}; });
                 else
                   ChannelGradients<T>(b, l, given).give();
               });
  });
  return y;
}

ChannelLayout of_batch(const Tensor& x) {
  const std::int64_t n = x.shape()[0], c = x.shape()[1];
  return {n, c, x.numel() / std::max<std::int64_t>(n * c, 1), 1, c};
}

}  // namespace

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  const std::int64_t channels = channels_of("group_norm", x, weight, bias, eps);
  if (groups < 1 || channels % groups != 0)
    check::fail("group_norm", "groups is ", groups, ": it must divide the ", channels, " channels of x ", x.shape());
  return with_precision(
      Precision::float32, {x, weight, bias}, [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
        const ChannelLayout batch = of_batch(x);
        const ChannelLayout l{1, batch.outer * channels, batch.inner, channels / groups, channels};
        return channel_norm({"group_norm", {{"groups", groups}, {"eps", eps}}}, {x, weight, bias, {}, {}}, l, eps);
      });
}

Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const std::int64_t channels = channels_of("batch_norm", x, weight, bias, eps);
  if (mean.defined() != var.defined())
    check::fail("batch_norm", mean.defined() ? "var" : "mean", " is undefined: give it, or neither for the batch's");
  if (mean.defined()) {
    check::floating("batch_norm", "mean", mean), check::floating("batch_norm", "var", var);
    check::shape("batch_norm", "mean", mean, {channels}), check::shape("batch_norm", "var", var, {channels});
  }
  return with_precision(
      Precision::float32, {x, mean, var, weight, bias},
      [&](const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight, const Tensor& bias) {
        return channel_norm({"batch_norm", {{"eps", eps}}}, {x, weight, bias, mean, var}, of_batch(x), eps);
      });
}

BatchNormalised batch_norm_and_statistics(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  channels_of("batch_norm", x, weight, bias, eps);
  ChannelMoments m;
  const ChannelLayout l = of_batch(x);
  Tensor y = with_precision(
      Precision::float32, {x, weight, bias}, [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
        return channel_norm({"batch_norm", {{"eps", eps}}}, {x, weight, bias, {}, {}}, l, eps, &m);
      });
  if (!m.mean.defined()) return {y, {}, {}};
  const NoGrad no_grad;
  const auto n = static_cast<double>(l.slice_size());
  const DType t = y.dtype() == float64 ? float64 : float32;
  return {y, m.mean.to(t), (m.var * (n / (n - 1))).to(t)};
}

}  // namespace fit
