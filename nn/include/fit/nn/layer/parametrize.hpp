#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/nn/layer/layer.hpp"

/// Parameters that are computed from other tensors, like PyTorch's torch.nn.utils.parametrize.
///
///     nn::parametrize(layer.weight, nn::LowRank(8, 3, 2));   // W + B A / 2 instead of W
///
/// Layers compute with p.value(). A parametrised p trains, saves and lists the tensors that it is computed from:
/// "fc.weight" becomes "fc.weight.original", and the computing layer's parameters are "fc.weight.parametrization.…".
/// The tensor p itself is then undefined. So code that forgets value() gets an Error instead of old numbers. (This does
/// not catch an optional bias: always use its value().) Create the optimiser after parametrize(), and create a new one
/// after remove_parametrization().
namespace fit::nn {

/// Makes p.value() return by(tensor of p), computed at each call, and once here. For a quantised p (quantize.hpp), `by`
/// gets the dequantised weights. Throws Error, and changes nothing, if p is undefined, or `by` returns another shape or
/// type. The same if p is parametrised already: use a Sequential for several layers.
void parametrize(Parameter& p, std::shared_ptr<UnaryLayer> by);
template <class L, class = std::enable_if_t<std::is_base_of_v<UnaryLayer, std::decay_t<L>>>>
void parametrize(Parameter& p, L&& by) {
  static_assert(!std::is_lvalue_reference_v<L>, "a layer is not copied: std::move() it in, or give a shared_ptr");
  parametrize(p, std::shared_ptr<UnaryLayer>(std::make_shared<L>(std::move(by))));
}

/// Stores the value of p as a new tensor of p, frozen if the original was. Throws Error if p is neither parametrised
/// nor quantised.
void remove_parametrization(Parameter& p);

/// x + alpha / rank * B A for x [out, in], in the type of x (Hu et al. 2021). A [rank, in] starts normal with standard
/// deviation 1/sqrt(in). B [out, rank] starts at 0, so the layer first returns x.
class LowRank final : public UnaryLayer {
 public:
  /// Throws Error for a rank below 1.
  LowRank(std::int64_t out_features, std::int64_t in_features, std::int64_t rank, double alpha = 1);
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS_DECLARED
  std::string describe() const override;
  std::vector<std::pair<std::string, std::string>> saved_options() const override;
  double alpha() const { return alpha_; }

  Parameter A, B;

 private:
  double alpha_;
};

/// LoRA: parametrises a weight [out, in] with LowRank and freezes the original. A and B are float64 for a float64
/// weight, else float32: they stay trainable when the weight is bfloat16. add_lora() (fit/nn/layers/fine_tune.hpp) does
/// this for a model.
void low_rank(Parameter& weight, std::int64_t rank, double alpha = 1);

}  // namespace fit::nn
