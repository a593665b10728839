#include "fit/backward/gradcheck.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>
#include <random>
#include <utility>

#include "backward/gradients.hpp"
#include "tensor/check.hpp"
#include "tensor/position.hpp"

namespace fit {

void TensorFunction::keep(Tensor (*f)(const Inputs&)) {
  call_ = [f](const Inputs& in) { return std::vector<Tensor>{f(in)}; };
}
void TensorFunction::keep(std::vector<Tensor> (*f)(const Inputs&)) { call_ = f; }

namespace {

using detail::gradients;
using Values = std::vector<Tensor>;

// Uniform in [-1, 1), at least 0.1 away from 0: a cotangent near 0 would hide an error.
Tensor random_cotangent(const Shape& shape, std::mt19937_64& random) {
  Tensor v = Tensor::empty(shape, float64);
  double* const p = v.fresh<double>();
  for (std::int64_t i = 0; i < v.numel(); ++i) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
    p[i] = std::copysign(0.1 + 0.9 * std::abs(u), u);
  }
  return v;
}

// Calls f and returns its floating outputs, after checks.
Values outputs_of(const TensorFunction& f, const Values& inputs) {
  Values y;
  for (const Tensor& t : f(inputs)) {
    if (is_floating(t.dtype()) && t.dtype() != float64)
      check::fail("check_gradients", "an output of shape ", t.shape(), " is ", t.dtype(),
                  ": the function must compute in float64, as its inputs are (a layer does so after to(float64))");
    if (is_floating(t.dtype())) y.push_back(t);
  }
  return y;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.numel() * size_of(a.dtype()))) == 0;
}

// sum over k of <up_k - down_k, seed_k>. Subtracts first, so that large constant values cost no precision.
double moved(const Values& up, const Values& down, const Values& seeds) {
  double sum = 0;
  for (std::size_t k = 0; k < up.size(); ++k) {
    const auto a = up[k].data<double>(), b = down[k].data<double>(), v = seeds[k].data<double>();
    for (std::int64_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * v[i];
  }
  return sum;
}

// A guard: moves some elements of x, from `first` on, by step * direction while it lives.
class Perturbation {
 public:
  Perturbation(const Tensor& x, std::int64_t first, const std::vector<double>& direction, double step)
      : x_(x), first_(first), count_(static_cast<std::int64_t>(direction.size())) {
    const auto at = x.data<double>().begin() + first;
    before_.assign(at, at + count_);
    const NoGrad no_grad;
    double* const p = x_.edit<double>().begin() + first;
    for (std::int64_t i = 0; i < count_; ++i) p[i] += step * direction[static_cast<std::size_t>(i)];
  }
  ~Perturbation() { std::copy(before_.begin(), before_.end(), x_.fresh<double>() + first_); }
  Perturbation(const Perturbation&) = delete;
  Perturbation& operator=(const Perturbation&) = delete;

 private:
  Tensor x_;
  std::int64_t first_, count_;
  std::vector<double> before_;
};

class Checker {
 public:
  Checker(const GradCheckOptions& options, GradReport& report, std::mt19937_64& random)
      : options_(options), report_(report), random_(random) {}

  // Checks one input x. values() computes the functions of x; seeds are their cotangents; analytic is d<values,
  // seeds>/dx. If `output` names an element, each element of x has its own entry.
  template <class F>
  void input(const std::string& name, int order, const Tensor& x, const Tensor& analytic, const Values& seeds,
             const F& values, const std::string& output = {}) {
    GradReport::Entry entry;
    entry.name = name;
    entry.shape = x.shape();
    entry.output = output;
    entry.order = order;
    entry.projected = output.empty() && x.numel() > options_.full_up_to();
    const GradReport::Entry first_of = entry;
    const std::int64_t count = entry.projected ? options_.directions() : x.numel();
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t first = entry.projected ? 0 : k;
      const std::vector<double> direction = entry.projected ? signs(x.numel()) : std::vector<double>{1};
      const auto values_at = [&](double step) {
        const Perturbation perturbation(x, first, direction, step);
        Values v = values();
        for (Tensor& t : v) t = t.detach().clone();  // it may share the buffer of x
        return v;
      };
      double slope = 0;
      for (std::size_t i = 0; i < direction.size(); ++i)
        slope += direction[i] * analytic.data<double>()[first + static_cast<std::int64_t>(i)];
      compare(entry, k, slope, [&](double step) {
        const Values up = values_at(step), down = values_at(-step);
        return moved(up, down, seeds) / (2 * step);
      });
      if (!output.empty()) add(std::exchange(entry, first_of));
    }
    if (output.empty()) add(std::move(entry));
  }

 private:
  void add(GradReport::Entry entry) {
    report_.ok = report_.ok && entry.wrong == 0;
    report_.entries.push_back(std::move(entry));
  }

  std::vector<double> signs(std::int64_t n) {
    std::vector<double> s(static_cast<std::size_t>(n));
    for (double& e : s) e = random_() >> 63 ? 1 : -1;
    return s;
  }

  // difference(step) is the central difference.
  template <class F>
  void compare(GradReport::Entry& entry, std::int64_t k, double analytic, const F& difference) const {
    const auto right = [&](double numeric) {  // false with NaN
      return std::abs(analytic - numeric) <=
             options_.atol() + options_.rtol() * std::max(std::abs(analytic), std::abs(numeric));
    };
    double numeric = difference(options_.eps());
    if (!right(numeric))
      if (const double l = limit(difference, numeric); right(l)) numeric = l;
    const double off = std::abs(analytic - numeric);
    // If both are zero except for noise, the relative error is meaningless.
    const double relative =
        right(numeric) && off <= options_.atol() ? 0 : off / std::max(std::abs(analytic), std::abs(numeric));
    if (entry.worst < 0 || !(relative <= entry.relative_error)) {
      entry.worst = k;
      entry.analytic = analytic;
      entry.numeric = numeric;
      entry.relative_error = relative;
    }
    ++entry.compared;
    if (!right(numeric)) ++entry.wrong;
  }

  // The limit of the differences for steps that go to 0: Aitken's formula for three of them. At a kink of the
  // derivative, like that of x |x| at 0, differences have an error of about the step. Returns `first` without
  // convergence.
  template <class F>
  double limit(const F& difference, double first) const {
    const double second = difference(options_.eps() / 4), third = difference(options_.eps() / 16);
    const double before = second - first, last = third - second;
    if (!(std::abs(last) < 0.75 * std::abs(before))) return first;
    return third - last * last / (last - before);
  }

  const GradCheckOptions& options_;
  GradReport& report_;
  std::mt19937_64& random_;
};

void check_options(const GradCheckOptions& options) {
  if (options.order() != 1 && options.order() != 2)
    check::fail("check_gradients", "order is ", options.order(), ": it must be 1 or 2");
  if (options.jacobian() && options.order() == 2)
    check::fail("check_gradients", "jacobian with order 2: the entries of a Jacobian are first derivatives");
  if (options.directions() < 1)
    check::fail("check_gradients", "directions is ", options.directions(), ": it must be positive");
  if (!(options.eps() > 0) || std::isinf(options.eps()))
    check::fail("check_gradients", "eps is ", options.eps(), ": it must be positive and finite");
  if (!(options.rtol() >= 0 && options.atol() >= 0))
    check::fail("check_gradients", "rtol is ", options.rtol(), ", atol ", options.atol(), ": neither may be negative");
}

// A function with its inputs, those of them that are checked, as float64 leaves, and their names.
struct CheckedFunction {
  const TensorFunction& f;
  Values inputs, checked;
  std::vector<std::string> names;

  CheckedFunction(const TensorFunction& function, const Values& given, const GradCheckOptions& options) : f(function) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      Tensor x = given[i];
      if (x.defined() && is_floating(x.dtype())) {
        if (x.dtype() != float64 || !x.requires_grad() || !x.is_leaf())
          x = x.detach().to(float64).clone().requires_grad_();
        checked.push_back(x);
        names.push_back(i < options.names().size() ? options.names()[i] : "input " + std::to_string(i));
      }
      inputs.push_back(std::move(x));
    }
    if (checked.empty()) check::fail("check_gradients", "none of the ", given.size(), " inputs is floating: pass one");
  }
  Values outputs() const { return outputs_of(f, inputs); }
  Values unrecorded_outputs() const {
    const NoGrad no_grad;
    return outputs();
  }
};

// A cotangent for each output y.
Values cotangents_of(const CheckedFunction& f, const Values& y, std::mt19937_64& random) {
  const Values again = f.outputs();
  Values v;
  for (std::size_t k = 0; k < y.size(); ++k) {
    if (k >= again.size() || !same_bits(y[k], again[k]))
      check::fail("check_gradients", "two calls with the same inputs gave different results in output ", k,
                  ": seed its random numbers inside the function");
    v.push_back(random_cotangent(y[k].shape(), random));
  }
  return v;
}

// Checks one row of the Jacobian for each element of the outputs.
void check_jacobian(const CheckedFunction& f, const Values& y, Checker& check) {
  for (std::size_t k = 0; k < y.size(); ++k)
    for (std::int64_t i = 0; i < y[k].numel(); ++i) {
      Values unit;
      for (const Tensor& t : y) unit.push_back(zeros(t.shape(), float64));
      unit[k].fresh<double>()[i] = 1;
      const Values row = gradients(f.outputs(), f.checked, unit);  // the last call had moved inputs
      for (std::size_t j = 0; j < f.checked.size(); ++j)
        check.input(
            f.names[j], 1, f.checked[j], row[j], unit, [&] { return f.unrecorded_outputs(); },
            "output " + std::to_string(k) + ' ' + position(y[k].shape(), i));
    }
}

// <g(x, v), u>, with u random, is a function of x and v: its derivatives are checked as those of f are.
void check_second_order(const CheckedFunction& f, Values& v, std::mt19937_64& random, Checker& check) {
  Values variables = f.checked, u;
  std::vector<std::string> names = f.names;
  for (std::size_t k = 0; k < v.size(); ++k) {
    variables.push_back(v[k].requires_grad_());
    names.push_back("grad_output " + std::to_string(k));
  }
  for (const Tensor& x : f.checked) u.push_back(random_cotangent(x.shape(), random));
  const Values second = gradients(gradients(f.outputs(), f.checked, v, create_graph), variables, u);
  for (std::size_t i = 0; i < variables.size(); ++i)
    check.input(names[i], 2, variables[i], second[i], u, [&] { return gradients(f.outputs(), f.checked, v); });
}

}  // namespace

GradReport check_gradients(const TensorFunction& f, const std::vector<Tensor>& inputs,
                           const GradCheckOptions& options) {
  check_options(options);
  const EnableGrad on;
  const CheckedFunction function(f, inputs, options);
  std::mt19937_64 random(options.seed());
  const Values y = function.outputs();
  Values v = cotangents_of(function, y, random);
  GradReport report;
  if (!y.empty()) report.op = y[0].grad_fn();
  Checker check(options, report, random);
  if (options.jacobian()) {
    check_jacobian(function, y, check);
    return report;
  }
  const Values g = gradients(y, function.checked, v);
  for (std::size_t i = 0; i < function.checked.size(); ++i)
    check.input(function.names[i], 1, function.checked[i], g[i], v, [&] { return function.unrecorded_outputs(); });
  if (options.order() == 2) check_second_order(function, v, random, check);
  return report;
}

namespace {

// A direction, "7", or an element, "[1, 2]".
std::string place(const GradReport::Entry& e) {
  return e.projected || e.shape.rank() == 0 ? std::to_string(e.worst) : position(e.shape, e.worst);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const GradReport& report) {
  for (const GradReport::Entry& e : report.entries) {
    out << (e.wrong ? "WRONG " : "ok    ");
    if (!e.output.empty()) {
      out << report.op << ": d " << e.output << " / d " << e.name << ' ' << position(e.shape, e.worst) << ": analytic "
          << e.analytic << ", numeric " << e.numeric << '\n';
      continue;
    }
    out << (e.order == 2 ? "second derivative of " : "gradient of ") << report.op << " by " << e.name << ' ' << e.shape
        << ": ";
    if (e.compared == 0)
      out << "no elements";
    else
      out << e.wrong << " of " << e.compared << (e.projected ? " directions" : " elements")
          << " out of tolerance; worst " << place(e) << ": analytic " << e.analytic << ", numeric " << e.numeric
          << ", relative error " << e.relative_error;
    out << '\n';
  }
  return out;
}

}  // namespace fit
