#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "fit/nn/layer.hpp"

/// Losses: as functions, and as layers that hold their options.
namespace fit::nn {

/// What becomes of the losses of the elements or rows.
enum class Reduction { none, mean, sum };

/// (input - target)^2 of each element. The shapes must be equal: a [N] beside a [N, 1] would broadcast to [N, N] and
/// train on nonsense. The mean over no elements is NaN.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< rows with this target count for nothing
  Reduction reduction = Reduction::mean;
};

/// lse(logits) - logits[target] of each row, -ln of the probability that softmax gives to the target:
/// logits [..., C], targets [...] (int64, 0 … C - 1). The class axis is the LAST: [N, C] with [N], [B, T, C] with
/// [B, T]. (PyTorch has it second from three axes on: [N, C, T].)
/// The mean is over the rows that are not ignored; over none it is 0 with zero gradients (PyTorch: NaN).
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

/// The base of losses: two tensors to one, no members.
class Loss : public Layer {
 public:
  virtual Tensor forward(const Tensor& input, const Tensor& target) const = 0;
  Tensor operator()(const Tensor& input, const Tensor& target) const { return forward(input, target); }
  void fields(Fields&) override {}
};

class MSELoss final : public Loss {
 public:
  explicit MSELoss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  Tensor forward(const Tensor& input, const Tensor& target) const override {
    return mse_loss(input, target, reduction_);
  }
  std::string describe() const override;

 protected:
  std::shared_ptr<Layer> make() const override { return std::make_shared<MSELoss>(reduction_); }

 private:
  Reduction reduction_;
};

class CrossEntropyLoss final : public Loss {
 public:
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& logits, const Tensor& targets) const override {
    return cross_entropy(logits, targets, options_);
  }
  std::string describe() const override;

 protected:
  std::shared_ptr<Layer> make() const override { return std::make_shared<CrossEntropyLoss>(options_); }

 private:
  CrossEntropyOptions options_;
};

}  // namespace fit::nn
