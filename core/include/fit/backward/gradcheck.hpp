#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/tensor/tensor.hpp"

/// Checks derivatives against central differences, in float64.
///
///     const GradReport report = check_gradients([](const auto& in) { return my_op(in[0], in[1]); }, {a, b});
///     if (!report.ok) std::cout << report;
namespace fit {

/// Any callable that takes const std::vector<Tensor>& and returns one tensor or a vector of tensors.
class TensorFunction {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, TensorFunction>>>
  TensorFunction(F f) {
    using Result = std::conditional_t<std::is_invocable_r_v<Tensor, F, const Inputs&>, Tensor, std::vector<Tensor>>;
    // A lambda without captures is a pointer: to put its own type into a std::function would take long to compile.
    if constexpr (std::is_convertible_v<F, Result (*)(const Inputs&)>)
      keep(static_cast<Result (*)(const Inputs&)>(f));
    else
      call_ = [f = std::move(f)](const Inputs& in) -> std::vector<Tensor> {
        if constexpr (std::is_same_v<Result, Tensor>)
          return {f(in)};
        else
          return f(in);
      };
  }
  /// Calls the function.
  std::vector<Tensor> operator()(const std::vector<Tensor>& in) const { return call_(in); }

 private:
  using Inputs = std::vector<Tensor>;
  void keep(Tensor (*f)(const Inputs&));
  void keep(std::vector<Tensor> (*f)(const Inputs&));

  std::function<std::vector<Tensor>(const Inputs&)> call_;
};

/// Options of check_gradients().
struct GradCheckOptions {
  /// 1 checks the gradients. 2 also checks their gradients, by the inputs and by the incoming gradients.
  FIT_OPTION(int, order) = 1;
  /// Compares each entry of the Jacobian, d output / d input, and prints one line for each. For small functions, order
  /// 1.
  FIT_OPTION(bool, jacobian) = false;
  FIT_OPTION(double, eps) = 1e-6;  ///< The step of the central differences.
  /// A derivative is correct if |analytic - numeric| <= atol + rtol max(|analytic|, |numeric|).
  FIT_OPTION(double, rtol) = 1e-5;
  FIT_OPTION(double, atol) = 1e-7;  ///< The absolute tolerance: see rtol.
  /// Inputs with at most this many elements are checked element by element, larger ones along random directions.
  FIT_OPTION(std::int64_t, full_up_to) = 512;
  FIT_OPTION(int, directions) = 8;      ///< The number of random directions.
  FIT_OPTION(std::uint64_t, seed) = 0;  ///< The seed of the cotangents and directions.
  /// The names of the inputs in the report; the default is "input 0", "input 1", …
  FIT_OPTION(std::vector<std::string>, names);
};

/// The result of check_gradients().
struct GradReport {
  /// The result for one input.
  struct Entry {
    std::string name;
    Shape shape;
    std::string output;         ///< of a Jacobian: the differentiated element, "output 0 [1, 2]"; otherwise empty
    int order = 1;              ///< order of the derivative
    bool projected = false;     ///< compared along random directions, not element by element
    std::int64_t worst = -1;    ///< the element (or direction) with the largest error, in row-major order; -1: none
    double analytic = 0;        ///< derivative from the graph at `worst`
    double numeric = 0;         ///< derivative from central differences at `worst`
    double relative_error = 0;  ///< |analytic - numeric| / max(|analytic|, |numeric|)
    std::int64_t wrong = 0;     ///< how many are out of tolerance
    std::int64_t compared = 0;  ///< how many were compared
  };
  bool ok = true;
  std::string op;  ///< the operation of the first output
  std::vector<Entry> entries;
};
/// Writes the operation, and a line for each entry that begins with "ok" or "WRONG".
std::ostream& operator<<(std::ostream& out, const GradReport& report);

/// Compares d<f(inputs), v>/d(input), v random, with central differences for each floating input. f is called many
/// times and must be a function of its inputs: a random f must reset its seed in each call. If a difference is out of
/// tolerance, its limit for smaller steps is used: the derivative may have a kink, as x |x| has at 0.
///
/// A float64 leaf that requires a gradient is changed by the step in place, and restored. So f may also access it
/// directly, as a layer accesses its parameters. (Each change counts in its version().) For any other floating input, f
/// gets a float64 copy. Inputs of other types are passed unchanged. Throws Error if two calls give different results,
/// if an output is float32, and for a Jacobian of order 2.
GradReport check_gradients(const TensorFunction& f, const std::vector<Tensor>& inputs,
                           const GradCheckOptions& options = {});

}  // namespace fit
