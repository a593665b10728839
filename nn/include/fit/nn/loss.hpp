#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "fit/nn/layer.hpp"
#include "fit/option.hpp"

/// Losses: as functions, and as layers that hold their options. Formulas, names and defaults are PyTorch's; where a
/// choice differs, it is stated. Weights are converted to the input's type, and are constants to every derivative.
/// Options are set by name:
///
///     nn::cross_entropy(logits, targets, nn::CrossEntropyOptions().ignore_index(padding).label_smoothing(0.1))
namespace fit::nn {

/// What becomes of the losses of the elements or rows. The mean is what every loss begins with.
enum class Reduction { mean, sum, none };

// ---- classes: the class axis is the LAST, [N, C] with targets [N], [B, T, C] with [B, T]. PyTorch has it second from
// ---- three axes on, [N, C, T]: scores from there want class_axis = 1. Where C = T, no shape could tell the two apart.

/// The options of cross_entropy().
struct CrossEntropyOptions {
  FIT_OPTION(std::int64_t, ignore_index) = -100;       ///< Rows with this target do not count.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< What becomes of the losses of the rows.
  FIT_OPTION(double, label_smoothing) = 0;  ///< The part of each target that is spread evenly over all classes.
  FIT_OPTION(Tensor, weight);               ///< The weights of the classes, [C].
  FIT_OPTION(int, class_axis) = -1;         ///< The axis of the classes in logits; 1 is PyTorch's.
};

/// lse(logits) - logits[target] of each row, -ln of the probability that softmax gives to the target: logits [..., C],
/// targets [...] (int64, 0 … C - 1). With weights, each row is multiplied by that of its target, and the mean is
/// divided by the sum of those. Rows that are ignored have no part in it; over none, or weights of 0 alone, the mean is
/// 0 with zero gradients (PyTorch: NaN).
/// Or targets [..., C], floating: probabilities, whose classes lie on class_axis, too. -sum(weight target
/// log_softmax(logits)) of each row, the mean over rows. Throws Error then if ignore_index is a class.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

/// The options of nll_loss().
struct NLLOptions {
  FIT_OPTION(std::int64_t, ignore_index) = -100;       ///< Rows with this target do not count.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< What becomes of the losses of the rows.
  FIT_OPTION(Tensor, weight);                          ///< The weights of the classes, [C].
  FIT_OPTION(int, class_axis) = -1;                    ///< The axis of the classes in input; 1 is PyTorch's.
};

/// -input[target] of each row: what cross_entropy is, after log_softmax.
Tensor nll_loss(const Tensor& input, const Tensor& targets, const NLLOptions& options = {});

// ---- yes or no: targets in 0 … 1, of the input's shape; others throw Error ----------------------------------------

/// The options of binary_cross_entropy().
struct BCEOptions {
  FIT_OPTION(Tensor, weight);  ///< The weights of the elements; broadcasts to the input's shape.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< What becomes of the losses of the elements.
};

/// -(target ln(input) + (1 - target) ln(1 - input)), the logarithms cut off at -100. Throws Error for an input outside
/// 0 … 1. The form with logits is more exact.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BCEOptions& options = {});

/// The options of binary_cross_entropy_with_logits().
struct BCEWithLogitsOptions {
  FIT_OPTION(Tensor, weight);      ///< The weights of the elements; broadcasts to the input's shape.
  FIT_OPTION(Tensor, pos_weight);  ///< The weights of the ones among the targets; broadcasts to the input's shape.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< What becomes of the losses of the elements.
};

/// The same of sigmoid(logits), without overflow:
/// pos_weight target softplus(-logits) + (1 - target) softplus(logits)
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BCEWithLogitsOptions& options = {});

/// The options of focal_loss().
struct FocalOptions {
  FIT_OPTION(double, alpha) = 0.25;  ///< The weight of the ones; zeros have 1 - alpha. Negative: both have 1.
  FIT_OPTION(double, gamma) = 2;     ///< The exponent of 1 - p_t; 0 is the weighted cross entropy.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< What becomes of the losses of the elements.
};

/// Lin et al. 2017: -alpha_t (1 - p_t)^gamma ln(p_t), p_t = sigmoid(logits) where the target is 1, 1 - sigmoid(logits)
/// where it is 0: what is predicted well counts for less. Throws Error for a gamma that is negative or not finite.
Tensor focal_loss(const Tensor& logits, const Tensor& target, const FocalOptions& options = {});

// ---- distances. The shapes must be equal: a [N] beside a [N, 1] would broadcast to [N, N] and train on nonsense. ----
// ---- The mean over no elements is NaN.

/// (input - target)^2 of each element.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

/// |input - target| of each element.
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

/// The options of smooth_l1_loss().
struct SmoothL1Options {
  FIT_OPTION(double, beta) = 1;                        ///< Where the square becomes a line; 0 is l1_loss.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< What becomes of the losses of the elements.
};

/// With d = |input - target|: d^2 / (2 beta) where d < beta, else d - beta / 2.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1Options& options = {});

/// The options of huber_loss().
struct HuberOptions {
  FIT_OPTION(double, delta) = 1;                       ///< Where the square becomes a line.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< What becomes of the losses of the elements.
};

/// With d = |input - target|: d^2 / 2 where d <= delta, else delta (d - delta / 2).
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberOptions& options = {});

/// The options of kl_div().
struct KLDivOptions {
  FIT_OPTION(bool, log_target) = false;                ///< The targets are logarithms, too.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< What becomes of the losses of the elements.
};

/// target (ln(target) - input) of each element, the input being logarithms of probabilities. The mean is over elements;
/// the divergence is the sum, divided by the count of rows (PyTorch: batchmean).
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivOptions& options = {});

/// The options of cosine_embedding_loss().
struct CosineEmbeddingOptions {
  FIT_OPTION(double, margin) = 0;                      ///< A cosine up to this costs nothing where the target is -1.
  FIT_OPTION(Reduction, reduction) = Reduction::mean;  ///< What becomes of the losses of the rows.
};

/// a, b [..., C] and targets [...] of 1 and -1. With c the cosine between the rows: 1 - c where the target is 1,
/// max(0, c - margin) where it is -1. Throws Error for another target.
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             const CosineEmbeddingOptions& options = {});

// ---- as layers ----------------------------------------------------------------------------------------------------

/// Options in words, as a layer prints them: what is not the default.
std::string describe(const Reduction& reduction);
std::string describe(const CrossEntropyOptions& options);
std::string describe(const NLLOptions& options);
std::string describe(const BCEOptions& options);
std::string describe(const BCEWithLogitsOptions& options);
std::string describe(const FocalOptions& options);
std::string describe(const SmoothL1Options& options);
std::string describe(const HuberOptions& options);
std::string describe(const KLDivOptions& options);
std::string describe(const CosineEmbeddingOptions& options);

/// A loss as a layer that holds its options.
template <class Self, class Options, class Base>
class LossLayer : public Base {
 public:
  explicit LossLayer(const Options& options = {}) : options_(options) {}
  virtual Options options() const { return options_; }
  /// As Layer has it.
  void fields(Fields& f) override { f.self(static_cast<Self&>(*this)); }
  /// As Layer has it.
  std::string describe() const override { return nn::describe(options()); }

 private:
  Options options_;
};

/// The base of losses from two tensors to one.
class Loss : public Layer {
 public:
  virtual Tensor forward(const Tensor& input, const Tensor& target) const = 0;
  Tensor operator()(const Tensor& input, const Tensor& target) const {
    return within(*this, [&] { return forward(input, target); });
  }
};

/// A loss as a layer, from the function.
template <class Self, class Options, auto function>
class LossOf : public LossLayer<Self, Options, Loss> {
 public:
  using LossLayer<Self, Options, Loss>::LossLayer;
  /// The function, with these options.
  Tensor forward(const Tensor& input, const Tensor& target) const override {
    return function(input, target, this->options());
  }
};

/// One whose weights, if it has any, are saved with it and converted with it.
template <class Self, class Options, auto function>
class WeightedLossOf : public LossOf<Self, Options, function> {
 public:
  explicit WeightedLossOf(const Options& options = {})
      : LossOf<Self, Options, function>(options), weight(options.weight()) {}
  /// With the weights as they are now.
  Options options() const override { return LossOf<Self, Options, function>::options().weight(weight); }
  /// As Layer has it.
  void fields(Fields& f) override { f.of(static_cast<Self&>(*this), "weight", std::tie(weight)); }

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
  explicit BCEWithLogitsLoss(const BCEWithLogitsOptions& options = {})
      : WeightedLossOf(options), pos_weight(options.pos_weight()) {}
  /// With the weights as they are now.
  BCEWithLogitsOptions options() const override { return WeightedLossOf::options().pos_weight(pos_weight); }
  FIT_FIELDS(weight, pos_weight)

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
/// cosine_embedding_loss() as a layer.
struct CosineEmbeddingLoss final : LossLayer<CosineEmbeddingLoss, CosineEmbeddingOptions, Layer> {
  using LossLayer::LossLayer;
  /// cosine_embedding_loss() with its options.
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& target) const {
    return cosine_embedding_loss(a, b, target, options());
  }
  Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& target) const {
    return within(*this, [&] { return forward(a, b, target); });
  }
};

}  // namespace fit::nn
