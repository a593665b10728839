#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "fit/nn/layer.hpp"

/// Parameters that are computed from others, as with PyTorch's torch.nn.utils.parametrize.
///
///     nn::parametrize(layer.weight, nn::LowRank(8, 3, 2));   // W + B A / 2 in place of W
///
/// Layers compute with p.value(). A parametrised p trains, saves and lists what it is computed from: "fc.weight"
/// becomes "fc.weight.original", and the parameters of the layer that computes it "fc.weight.parametrization.…". As a
/// tensor, p is then undefined, so that whoever forgets value() gets an Error and no old numbers. (A bias that may be
/// absent is not missed that way: ask it for value().) An optimiser is to be made after parameters were parametrised,
/// and anew once they no longer are.
namespace fit::nn {

/// From now on p.value() is by(p's tensor), computed at each call. Throws Error, and has changed nothing, if p is
/// undefined or parametrised already (a Sequential does several things in a row), or `by` gives another shape or type.
/// Of a quantised p (quantize.hpp), `by` gets what the int8 weights stand for.
void parametrize(Parameter& p, std::shared_ptr<UnaryLayer> by);
template <class L, class = std::enable_if_t<std::is_base_of_v<UnaryLayer, std::decay_t<L>>>>
void parametrize(Parameter& p, L&& by) {
  static_assert(!std::is_lvalue_reference_v<L>, "a layer is not copied: std::move() it in, or give a shared_ptr");
  parametrize(p, std::shared_ptr<UnaryLayer>(std::make_shared<L>(std::move(by))));
}

/// The value becomes the tensor of p, a new one that is frozen if the original was. Throws Error if p is neither
/// parametrised nor quantised.
void remove_parametrization(Parameter& p);

/// x + alpha / rank * B A, of x's type, for x [out, in]: A [rank, in] starts normal with standard deviation 1/sqrt(in),
/// B [out, rank] with zeros, so that x changes only with training (Hu et al. 2021).
class LowRank final : public UnaryLayer {
 public:
  /// Throws Error for a rank below 1.
  LowRank(std::int64_t out_features, std::int64_t in_features, std::int64_t rank, double alpha = 1);
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS(A, B)
  std::string describe() const override;
  double alpha() const { return alpha_; }

  Parameter A, B;

 private:
  double alpha_;
};

/// LoRA: parametrises a weight [out, in] with LowRank and freezes the original. A and B are float64 beside a float64
/// weight, else float32, so that they can be trained beside a bfloat16 weight, too. For a whole model there is
/// add_lora() (fit/nn/fine_tune.hpp).
void low_rank(Parameter& weight, std::int64_t rank, double alpha = 1);

}  // namespace fit::nn
