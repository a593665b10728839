#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/detail/function.hpp"
#include "fit/nn/layer/layer.hpp"

/// Finds reasons why a model does not learn.
///
///     std::cout << nn::diagnose(model, [&] { return model.loss(x, y); });
///
///     encoder.0.fc.weight: no gradient. It was used by linear; the way to the loss was cut by a detach() before add
///     encoder.1.mlp: 57 of 64 units of relu were 0 for all 320 inputs
namespace fit::nn {

/// A kind of issue.
enum class Issue {
  no_gradient,  ///< a parameter that is not frozen got no gradient
  zero,         ///< a gradient that is 0 in all elements
  vanishing,    ///< a gradient with a root mean square below DiagnoseOptions::vanishing
  exploding,    ///< a gradient with a root mean square above DiagnoseOptions::exploding
  not_finite,   ///< a gradient with a NaN or an infinity
  dead_units,   ///< units of a ReLU that were 0 for all inputs of the call
  saturated,    ///< rows of a softmax with almost all weight on one element
  untrained,    ///< a leaf that got a gradient, but that neither the model's list nor options.trained has
};
const char* name_of(Issue a);  ///< "no gradient", "dead units", …

/// The thresholds of diagnose().
struct DiagnoseOptions {
  /// A gradient vanishes below this: Adam's eps, below which steps become smaller than the learning rate.
  FIT_OPTION(double, vanishing) = 1e-8;
  FIT_OPTION(double, exploding) = 1e3;     ///< A gradient explodes above this root mean square.
  FIT_OPTION(double, dead) = 0.25;         ///< The fraction of dead units from which a ReLU is reported.
  FIT_OPTION(double, saturated) = 0.5;     ///< The fraction of saturated rows from which a softmax is reported.
  FIT_OPTION(double, one_weight) = 0.999;  ///< A row is saturated if its largest weight is above this.
  /// The parameters that an optimiser trains: optimizer.trained(). diagnose() reports other parameters that got a
  /// gradient. Empty: it does not look for them.
  FIT_OPTION(std::vector<Tensor>, trained);
};

/// An issue of a parameter or layer.
struct Finding {
  std::string name;  ///< the dotted name of the parameter or layer; the class name for the model itself
  Issue what;        ///< the kind
  std::string text;  ///< the description
};

/// A parameter and its gradient. Frozen parameters have none.
struct ParameterGradient {
  std::string name;
  Shape shape;
  double value_rms = 0;                ///< the root mean square of the elements
  std::optional<double> gradient_rms;  ///< the same of the gradient; empty if there is none
};

/// The ReLUs or softmaxes of a layer in the call.
struct ActivationCount {
  std::string name;         ///< the innermost layer of the call
  std::string op;           ///< "relu", "softmax" or "attention"
  std::int64_t count = 0;   ///< units of a ReLU; rows of a softmax with two or more elements
  std::int64_t silent = 0;  ///< units that were 0 for all inputs; saturated rows
};

/// The result of diagnose().
struct Diagnosis {
  double loss = 0;                            ///< the value of the loss
  std::vector<ParameterGradient> parameters;  ///< all parameters, in the order of the model
  std::vector<ActivationCount> activations;   ///< in the order of their first calls
  std::vector<Finding> findings;              ///< the issues

  /// Whether there are no findings.
  bool healthy() const { return findings.empty(); }
  /// The findings, one per line, and a table of all gradients and activations.
  std::string str() const;
};
/// Writes str().
std::ostream& operator<<(std::ostream& out, const Diagnosis& diagnosis);

/// Calls `loss`, computes the gradients of the model's parameters, and reports issues. `loss` calls the model and
/// returns a tensor of one element. Gradients, buffers, the default generator and the mode of the layers are then as
/// before. All results of the call are kept until the end, so diagnose() needs more memory than a step.
///
/// - For a parameter without a gradient, it reports the operation where the path to the loss was cut: the first one
///   under NoGrad or after a detach(). If there is none, it reports the last operation that depends on the parameter.
/// - A unit of a ReLU is an index of the last axis, or of the second for four or more axes (images).
/// - A row of a softmax counts if it has two or more unmasked elements. For attention, only rows of the first element
///   of the batch count.
/// - The gradient of a key's bias, "w_k.bias", is 0 except for rounding, because it shifts all scores of a row alike.
///   This is not reported.
/// - A leaf that got a gradient and is no parameter of the model is reported: a member that FIT_FIELDS does not list or
///   can't find, such as a Tensor, or a layer behind a pointer. With options.trained, parameters of the model that are
///   not among it are reported, too.
///
/// Passes on exceptions of `loss`. Throws Error if `loss` does not return a tensor of one element.
Diagnosis diagnose(const Layer& model, const std::function<Tensor()>& loss, const DiagnoseOptions& options = {});

}  // namespace fit::nn
