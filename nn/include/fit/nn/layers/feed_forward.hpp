#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/nn/layers/dropout.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"

namespace fit::nn {

/// The function between the two projections of a FeedForward.
enum class Activation {
  relu,
  gelu,          ///< the exact form
  gelu_tanh,     ///< the form of GPT-2
  swiglu,        ///< silu(gate(x)) * fc(x), with a third projection (Shazeer 2020)
  geglu,         ///< gelu(gate(x)) * fc(x), likewise
  geglu_tanh,    ///< gelu_tanh(gate(x)) * fc(x), as in Gemma
  squared_relu,  ///< relu(fc(x))^2 (So et al. 2021)
  solu,          ///< ln(y softmax(y)) for y = fc(x), with a LayerNorm ln (Elhage et al. 2022)
};
const char* name_of(Activation a);  ///< "relu", "gelu", …

/// The options of FeedForward.
struct FeedForwardOptions {
  FIT_OPTION(Activation, activation) = Activation::relu;  ///< The function between the two projections.
  FIT_OPTION(double, dropout) = 0;                        ///< The dropout of the result, in training.
  FIT_OPTION(double, inner_dropout) = 0;                  ///< The dropout of the activation's result, in training.
  FIT_OPTION(bool, bias) = true;                          ///< Whether the projections have a bias.
};

/// proj(activation(fc(x))) for each position: [..., d_model] -> [..., hidden] -> [..., d_model].
class FeedForward final : public UnaryLayer {
  std::int64_t d_model_, hidden_;
  FeedForwardOptions options_;

 public:
  FeedForward(std::int64_t d_model, std::int64_t hidden, const FeedForwardOptions& options = {});
  explicit FeedForward(...) = delete;  // give (d_model, hidden, FeedForwardOptions()…)
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS_DECLARED
  std::string describe() const override;
  std::vector<std::pair<std::string, std::string>> saved_options() const override;

  Linear fc;                    // [hidden, d_model]
  std::optional<Linear> gate;   // [hidden, d_model] for swiglu, geglu and geglu_tanh, else none
  std::optional<LayerNorm> ln;  // [hidden] for solu, else none
  Linear proj;                  // [d_model, hidden]
  Dropout inner_dropout, dropout;
};

}  // namespace fit::nn
