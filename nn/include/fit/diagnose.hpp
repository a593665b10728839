#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "fit/nn/layer.hpp"
#include "fit/option.hpp"

/// Why a model does not learn.
///
///     std::cout << nn::diagnose(model, [&] { return model.loss(x, y); });
///
///     encoder.0.fc.weight: no gradient. It was used by linear; the way to the loss was cut by a detach() before add
///     encoder.1.mlp: 57 of 64 units of relu were 0 for all 320 inputs
namespace fit::nn {

/// What may be wrong.
enum class Ailment {
  no_gradient,  ///< nothing came back to a parameter that is not frozen
  zero,         ///< a gradient that is 0 in all elements
  vanishing,    ///< … whose root mean square is below DiagnoseOptions::vanishing
  exploding,    ///< … above DiagnoseOptions::exploding
  not_finite,   ///< … that has a NaN or an infinity
  dead_units,   ///< units of a ReLU that were 0 for all inputs of the call
  saturated,    ///< rows of a softmax whose weight lies on one element
};
const char* name_of(Ailment a);  ///< "no gradient", "dead units", …

/// From where on diagnose() finds something wrong.
struct DiagnoseOptions {
  /// A gradient vanishes below this: Adam's eps, below which steps become smaller than the learning rate.
  FIT_OPTION(double, vanishing) = 1e-8;
  FIT_OPTION(double, exploding) = 1e3;     ///< A gradient explodes above this root mean square.
  FIT_OPTION(double, dead) = 0.25;         ///< The fraction of dead units from which a ReLU is reported.
  FIT_OPTION(double, saturated) = 0.5;     ///< The fraction of saturated rows from which a softmax is reported.
  FIT_OPTION(double, one_weight) = 0.999;  ///< A row is saturated if its largest weight is above this.
};

/// One thing that may be wrong.
struct Finding {
  std::string name;  ///< of the parameter or layer, dotted; the model's class for itself
  Ailment what;      ///< of which kind
  std::string text;  ///< in words
};

/// A parameter and its gradient. Frozen ones have none.
struct ParameterGradient {
  std::string name;
  Shape shape;
  double value_rms = 0;                ///< the root of the mean of the squared elements
  std::optional<double> gradient_rms;  ///< not given where there is no gradient
};

/// ReLUs and softmaxes of the call, by layer.
struct ActivationCount {
  std::string name;         ///< of the innermost layer that was being called
  std::string op;           ///< "relu", "softmax" or "attention"
  std::int64_t count = 0;   ///< units of a ReLU; rows of a softmax that have a choice
  std::int64_t silent = 0;  ///< units that were 0 for all inputs; rows whose weight lies on one element
};

/// What diagnose() has seen.
struct Diagnosis {
  double loss = 0;                            ///< its value
  std::vector<ParameterGradient> parameters;  ///< all of the model, in its order
  std::vector<ActivationCount> activations;   ///< in the order of their first calls
  std::vector<Finding> findings;              ///< what may be wrong

  /// Whether nothing was found.
  bool healthy() const { return findings.empty(); }
  /// The findings, one a line, and below them a table of all gradients and activations.
  std::string str() const;
};
/// Writes str().
std::ostream& operator<<(std::ostream& out, const Diagnosis& diagnosis);

/// Calls `loss`, which computes a tensor of one element by way of the model, differentiates it by the model's
/// parameters, and says what it has seen. Gradients, the default generator and training or evaluation are afterwards as
/// they were; all results of the call are kept until the end, so it takes more memory than a step.
///
/// - Of a parameter without a gradient it tells the operation where its way to the loss was cut: the first that ran
///   under NoGrad or after a detach(), else the last that used it, or what came of it.
/// - A unit of a ReLU is an index of the last axis, or of the second where there are four or more (images).
/// - A row of a softmax counts where it has a choice, that is, sees two elements or more; of attention, those of the
///   first element of the batch are looked at.
/// - The gradient of a key's bias, "w_k.bias", is 0 but for rounding, as it moves all scores of a row alike: it is no
///   finding.
///
/// Throws what `loss` throws, and Error if it gives no tensor of one element.
Diagnosis diagnose(const Layer& model, const std::function<Tensor()>& loss, const DiagnoseOptions& options = {});

}  // namespace fit::nn
