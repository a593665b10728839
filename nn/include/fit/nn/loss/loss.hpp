#pragma once
#include <cstdint>
#include <string>

#include "fit/base/option.hpp"
#include "fit/nn/layer/layer.hpp"

/// Losses as functions, and as layers that hold their options. Formulas, names and defaults are PyTorch's; comments
/// state the differences. Weights are converted to the input's type and get no gradient. Options are set by name:
///
///     nn::cross_entropy(logits, targets, nn::CrossEntropyOptions().ignore_index(padding).label_smoothing(0.1))
namespace fit::nn {

/// How the losses of elements or rows are reduced. The default is the mean.
enum class Reduction { mean, sum, none };

// ---- classes: the class axis is the LAST, [N, C] with targets [N], [B, T, C] with [B, T]. PyTorch's class axis is the
// ---- second, [N, C, T]: set class_axis = 1 for such scores. If C = T, the shapes do not show a wrong choice.

/// The options of cross_entropy().
struct CrossEntropyOptions {
  FIT_OPTION(std::int64_t, ignore_index) = -100;       ///< Rows with this target do not count.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< The reduction over rows.
  FIT_OPTION(double, label_smoothing) = 0;  ///< The fraction of each target that is spread evenly over all classes.
  FIT_OPTION(Tensor, weight);               ///< The weights of the classes, [C].
  FIT_OPTION(int, class_axis) = -1;         ///< The axis of the classes in logits; 1 is PyTorch's.
};

/// lse(logits) - logits[target] for each row: -ln of the target's softmax probability. logits [..., C], targets [...]
/// (int64, 0 … C - 1). With weights, each row is multiplied by the weight of its target, and the mean divides by the
/// sum of these weights. Ignored rows do not count. If no row counts or all weights are 0, the mean is 0 with zero
/// gradients (PyTorch: NaN).
/// Floating targets [..., C] are probabilities, with the same class_axis: -sum(weight target log_softmax(logits)) for
/// each row, and the mean over rows. Throws Error then if ignore_index is a class, or a target negative.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

/// The options of nll_loss().
struct NLLOptions {
  FIT_OPTION(std::int64_t, ignore_index) = -100;       ///< Rows with this target do not count.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< The reduction over rows.
  FIT_OPTION(Tensor, weight);                          ///< The weights of the classes, [C].
  FIT_OPTION(int, class_axis) = -1;                    ///< The axis of the classes in input; 1 is PyTorch's.
};

/// -input[target] for each row: cross_entropy() without its log_softmax. Throws Error for an input that looks like
/// probabilities, as kl_div() does.
Tensor nll_loss(const Tensor& input, const Tensor& targets, const NLLOptions& options = {});

// ---- sequences ----------------------------------------------------------------------------------------------------

/// The options of ctc_loss().
struct CTCOptions {
  FIT_OPTION(std::int64_t, blank) = 0;                 ///< The class that stands for no label.
  FIT_OPTION(bool, zero_infinity) = false;             ///< Infinite losses, of targets too long for the steps, are 0.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< The mean divides each loss by its target's length first.
};

/// Connectionist temporal classification (Graves et al. 2006): -ln of the probability of the target, summed over all
/// ways to spread its labels over the steps, with repetitions, and blanks between them. log_probs [T, N, C] are those
/// of log_softmax(); targets [N, S], input_lengths [N] (how many steps count) and target_lengths [N] (how many labels)
/// are int64. The result is per sequence, [N], before the reduction. Computed in float64. The gradient by log_probs is
/// minus the probability of each class at each step (PyTorch adds e^log_probs, which log_softmax() takes away); it has
/// none itself. Throws Error for a label that is the blank, or no class, and for log_probs above 0.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCOptions& options = {});

// ---- binary: targets in 0 … 1, of the input's shape; others throw Error -------------------------------------------

/// The options of binary_cross_entropy().
struct BCEOptions {
  FIT_OPTION(Tensor, weight);  ///< The weights of the elements; broadcasts to the input's shape.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< The reduction over elements.
};

/// -(target ln(input) + (1 - target) ln(1 - input)), with logarithms clamped to at least -100. Throws Error for an
/// input outside 0 … 1. The function with logits is more exact.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BCEOptions& options = {});

/// The options of binary_cross_entropy_with_logits().
struct BCEWithLogitsOptions {
  FIT_OPTION(Tensor, weight);      ///< The weights of the elements; broadcasts to the input's shape.
  FIT_OPTION(Tensor, pos_weight);  ///< The weights of positive targets; broadcasts to the input's shape.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< The reduction over elements.
};

/// The same for sigmoid(logits), without overflow:
/// pos_weight target softplus(-logits) + (1 - target) softplus(logits)
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BCEWithLogitsOptions& options = {});

/// The options of focal_loss().
struct FocalOptions {
  FIT_OPTION(double, alpha) = 0.25;  ///< The weight for target 1; target 0 has 1 - alpha. Negative: both have 1.
  FIT_OPTION(double, gamma) = 2;     ///< The exponent of 1 - p_t; 0 is the weighted cross entropy.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< The reduction over elements.
};

/// Lin et al. 2017: alpha_t (1 - p_t)^gamma times the cross entropy. With p = sigmoid(logits) and targets t in 0 … 1:
/// p_t = p t + (1 - p) (1 - t), alpha_t = alpha t + (1 - alpha) (1 - t). Good predictions count less. (torchvision:
/// sigmoid_focal_loss.) Throws Error for a gamma that is negative or not finite.
Tensor focal_loss(const Tensor& logits, const Tensor& target, const FocalOptions& options = {});

// ---- distances. The shapes must be equal: [N] and [N, 1] would broadcast to [N, N], and the loss would be wrong. ----
// ---- The mean over no elements is NaN.

/// (input - target)^2 for each element.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

/// |input - target| for each element.
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

/// The options of smooth_l1_loss().
struct SmoothL1Options {
  FIT_OPTION(double, beta) = 1;                        ///< The difference at which the loss becomes linear; 0: l1_loss.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< The reduction over elements.
};

/// With d = |input - target|: d^2 / (2 beta) if d < beta, else d - beta / 2.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1Options& options = {});

/// The options of huber_loss().
struct HuberOptions {
  FIT_OPTION(double, delta) = 1;                       ///< The difference at which the loss becomes linear.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< The reduction over elements.
};

/// With d = |input - target|: d^2 / 2 if d <= delta, else delta (d - delta / 2).
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberOptions& options = {});

/// The options of gaussian_nll_loss().
struct GaussianNLLOptions {
  FIT_OPTION(bool, full) = false;                      ///< Adds the constant ln(2 pi) / 2.
  FIT_OPTION(double, eps) = 1e-6;                      ///< The smallest variance; the gradient passes below it, too.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< The reduction over elements.
};

/// -ln of the density of a normal distribution with mean `input` and variance `var`: (ln v + (input - target)^2 / v) /
/// 2 with v = max(var, eps). var has the shape of input, or lacks its last axis, or has size 1 there. Throws Error for
/// a negative variance.
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNLLOptions& options = {});

/// The options of kl_div().
struct KLDivOptions {
  FIT_OPTION(bool, log_target) = false;                ///< Whether the targets are logarithms, too.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< The reduction over elements.
};

/// target (ln(target) - input) for each element. The input is log probabilities: throws Error if it looks like
/// probabilities, with numbers above 0, none below and none above 1. Throws Error for negative targets
/// without log_target. The mean is over elements: for the divergence, divide the sum by the number of rows (PyTorch:
/// batchmean).
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivOptions& options = {});

/// The options of cosine_embedding_loss().
struct CosineEmbeddingOptions {
  FIT_OPTION(double, margin) = 0;                      ///< For target -1, the loss is 0 up to this cosine.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< The reduction over rows.
};

/// a, b [..., C] and targets [...] of 1 and -1. With c the cosine between the rows: 1 - c for target 1, and
/// max(0, c - margin) for target -1. Throws Error for another target.
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             const CosineEmbeddingOptions& options = {});

// ---- the parts of a batch -----------------------------------------------------------------------------------------
//
// A batch may be computed in parts: on ranks, by accumulation, or in the batches of a validation. Its loss is then the
// sum of w L / sum of w over the parts, where L is the mean of a part over w items. So each function above says of its
// result over how many items it is a mean: elements, rows, or targets that count (with class weights, the sum of their
// weights), or that it is a sum. Numbers that are computed from it say the same: loss / 2, loss + 0.1 * penalty,
// loss.to(float64). The Trainer and dist::DataParallel join the parts by it: means are weighted, and sums are added.

/// The number of items over which `loss` is a mean. If it has several terms, the count of the first. Throws Error for a
/// sum, and for a tensor that says nothing.
double loss_count(const Tensor& loss);

/// `loss`, a tensor of one number, as a mean over `count` items: for a loss of your own, or one whose count is wrong
/// for you. `count` need not be an integer. 0: the part does not count.
///
///     nn::mean_over(sum(square(x - y) * valid) / targets, targets)
Tensor mean_over(const Tensor& loss, double count);

/// The same as a sum over items. A sum that is divided by a number stays a sum: if you divide it by the part's own
/// number of items, say so by mean_over().
Tensor sum_of(const Tensor& loss);

// ---- as layers ----------------------------------------------------------------------------------------------------

/// The options as text, as a layer prints them.
std::string describe(const Reduction& reduction);
std::string describe(const CrossEntropyOptions& options);
std::string describe(const NLLOptions& options);
std::string describe(const CTCOptions& options);
std::string describe(const BCEOptions& options);
std::string describe(const BCEWithLogitsOptions& options);
std::string describe(const FocalOptions& options);
std::string describe(const SmoothL1Options& options);
std::string describe(const HuberOptions& options);
std::string describe(const GaussianNLLOptions& options);
std::string describe(const KLDivOptions& options);
std::string describe(const CosineEmbeddingOptions& options);

/// A loss as a layer that holds its options.
template <class Self, class Options, class Base>
class LossLayer : public Base {
 public:
  explicit LossLayer(const Options& options = {}) : options_(options) {}
  virtual Options options() const { return options_; }
  /// See Layer.
  void fields(Fields& f) override { f.self(static_cast<Self&>(*this)); }
  /// See Layer.
  std::string describe() const override { return nn::describe(options()); }

 private:
  Options options_;
};

/// The base of losses with an input and a target.
class Loss : public Layer {
 public:
  virtual Tensor forward(const Tensor& input, const Tensor& target) const = 0;
  FIT_CALL
};

/// A loss as a layer, made from its function.
template <class Self, class Options, auto function>
class LossOf : public LossLayer<Self, Options, Loss> {
 public:
  using LossLayer<Self, Options, Loss>::LossLayer;
  /// Calls the function with these options.
  Tensor forward(const Tensor& input, const Tensor& target) const override {
    return function(input, target, this->options());
  }
};

/// The same with class weights as a buffer, which is saved and converted with the layer.
template <class Self, class Options, auto function>
class WeightedLossOf : public LossOf<Self, Options, function> {
 public:
  explicit WeightedLossOf(const Options& options = {})
      : LossOf<Self, Options, function>(options), weight(options.weight()) {}
  /// The options with the present weights.
  Options options() const override { return LossOf<Self, Options, function>::options().weight(weight); }
  /// See Layer.
  void fields(Fields& f) override { f.of(static_cast<Self&>(*this), "weight")(weight); }

  Buffer weight;
};

/// The functions above, as layers.
struct CrossEntropyLoss final : WeightedLossOf<CrossEntropyLoss, CrossEntropyOptions, cross_entropy> {
  using WeightedLossOf::WeightedLossOf;
};
struct NLLLoss final : WeightedLossOf<NLLLoss, NLLOptions, nll_loss> {
  using WeightedLossOf::WeightedLossOf;
};
struct BCELoss final : WeightedLossOf<BCELoss, BCEOptions, binary_cross_entropy> {
  using WeightedLossOf::WeightedLossOf;
};
/// binary_cross_entropy_with_logits() as a layer.
struct BCEWithLogitsLoss final
    : WeightedLossOf<BCEWithLogitsLoss, BCEWithLogitsOptions, binary_cross_entropy_with_logits> {
  explicit BCEWithLogitsLoss(const BCEWithLogitsOptions& options = {});
  /// The options with the present weights.
  BCEWithLogitsOptions options() const override;
  FIT_FIELDS_DECLARED

  Buffer pos_weight;
};
/// The functions above, as layers.
struct FocalLoss final : LossOf<FocalLoss, FocalOptions, focal_loss> {
  using LossOf::LossOf;
};
struct MSELoss final : LossOf<MSELoss, Reduction, mse_loss> {
  using LossOf::LossOf;
};
struct L1Loss final : LossOf<L1Loss, Reduction, l1_loss> {
  using LossOf::LossOf;
};
struct SmoothL1Loss final : LossOf<SmoothL1Loss, SmoothL1Options, smooth_l1_loss> {
  using LossOf::LossOf;
};
struct HuberLoss final : LossOf<HuberLoss, HuberOptions, huber_loss> {
  using LossOf::LossOf;
};
struct KLDivLoss final : LossOf<KLDivLoss, KLDivOptions, kl_div> {
  using LossOf::LossOf;
};
/// ctc_loss() as a layer.
struct CTCLoss final : LossLayer<CTCLoss, CTCOptions, Layer> {
  using LossLayer::LossLayer;
  /// ctc_loss() with these options.
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths) const {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, options());
  }
  FIT_CALL
};
/// gaussian_nll_loss() as a layer.
struct GaussianNLLLoss final : LossLayer<GaussianNLLLoss, GaussianNLLOptions, Layer> {
  using LossLayer::LossLayer;
  /// gaussian_nll_loss() with these options.
  Tensor forward(const Tensor& input, const Tensor& target, const Tensor& var) const {
    return gaussian_nll_loss(input, target, var, options());
  }
  FIT_CALL
};
/// cosine_embedding_loss() as a layer.
struct CosineEmbeddingLoss final : LossLayer<CosineEmbeddingLoss, CosineEmbeddingOptions, Layer> {
  using LossLayer::LossLayer;
  /// cosine_embedding_loss() with these options.
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& target) const {
    return cosine_embedding_loss(a, b, target, options());
  }
  FIT_CALL
};

}  // namespace fit::nn
