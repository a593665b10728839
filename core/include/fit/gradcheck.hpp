#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/option.hpp"
#include "fit/tensor.hpp"

/// Checks derivatives against central differences, in float64.
///
///     const GradReport report = check_gradients([](const auto& in) { return my_op(in[0], in[1]); }, {a, b});
///     if (!report.ok) std::cout << report;
namespace fit {

/// A function from tensors to one tensor or to a vector of them: any callable on const std::vector<Tensor>&.
class TensorFunction {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, TensorFunction>>>
  TensorFunction(F f)
      : call_([f = std::move(f)](const std::vector<Tensor>& in) -> std::vector<Tensor> {
          if constexpr (std::is_convertible_v<decltype(f(in)), Tensor>)
            return {f(in)};
          else
            return f(in);
        }) {}
  /// The outputs for these inputs.
  std::vector<Tensor> operator()(const std::vector<Tensor>& in) const { return call_(in); }

 private:
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> call_;
};

/// What check_gradients() compares, and how closely.
struct GradCheckOptions {
  /// 1 checks the gradients. 2 also differentiates them, by the inputs and by the incoming gradients.
  FIT_OPTION(int, order) = 1;
  /// Compares each entry of the Jacobian, d output / d input, and prints one line for each: for small functions,
  /// order 1.
  FIT_OPTION(bool, jacobian) = false;
  FIT_OPTION(double, eps) = 1e-6;  ///< The step of the central differences.
  /// A derivative is right where |analytic - numeric| <= atol + rtol max(|analytic|, |numeric|).
  FIT_OPTION(double, rtol) = 1e-5;
  FIT_OPTION(double, atol) = 1e-7;  ///< The absolute tolerance: see rtol.
  /// An input of up to this many elements is checked element by element, a larger one along random directions.
  FIT_OPTION(std::int64_t, full_up_to) = 512;
  FIT_OPTION(int, directions) = 8;      ///< The number of random directions.
  FIT_OPTION(std::uint64_t, seed) = 0;  ///< The seed of the cotangents and directions.
  /// The names of the inputs in the report; "input 0", "input 1" … where not given.
  FIT_OPTION(std::vector<std::string>, names);
};

/// What was compared, input by input.
struct GradReport {
  /// What was compared of one input.
  struct Entry {
    std::string name;
    Shape shape;
    std::string output;         ///< of a Jacobian: the element that is differentiated, "output 0 [1, 2]"; or empty
    int order = 1;              ///< of the derivative
    bool projected = false;     ///< compared along random directions, not element by element
    std::int64_t worst = -1;    ///< the element (or direction) that is furthest off, in row-major order; -1: none
    double analytic = 0;        ///< what the graph says there
    double numeric = 0;         ///< what the differences say there
    double relative_error = 0;  ///< |analytic - numeric| / max(|analytic|, |numeric|)
    std::int64_t wrong = 0;     ///< how many were out of tolerance
    std::int64_t compared = 0;  ///< how many were compared
  };
  bool ok = true;
  std::string op;  ///< the operation that gives the first output
  std::vector<Entry> entries;
};
/// Writes the operation and a line for each entry, which begins with "ok" or "WRONG".
std::ostream& operator<<(std::ostream& out, const GradReport& report);

/// Compares d<f(inputs), v>/d(input), v random, with central differences for each floating input. f is called many
/// times and must be a function: with randomness inside, it seeds it anew on each call. Where a difference is off, its
/// limit for smaller steps counts: the derivative may have a kink, as that of x |x| at 0.
///
/// A float64 leaf that wants gradients is itself changed by the step, and put back: so f may also reach it by another
/// way, as a layer its parameters. (Each change counts in its version().) Of any other floating input, f gets a float64
/// copy; inputs of other types are passed on.
/// Throws Error if two calls give different results, if an output is float32, and for a Jacobian of order 2.
GradReport check_gradients(const TensorFunction& f, const std::vector<Tensor>& inputs,
                           const GradCheckOptions& options = {});

}  // namespace fit
