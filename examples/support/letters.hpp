#pragma once
#include <cstdint>

#include "fit/fit.hpp"

namespace example {

/// The `length` letters from each of `starts` [B], and the next letter of each: [B, T] twice.
struct Letters {
  fit::Tensor input, target;

  Letters(const fit::Tensor& text, const fit::Tensor& starts, std::int64_t length) {
    const fit::Tensor at = starts.unsqueeze(1) + fit::arange(length);
    const auto letters = [&](const fit::Tensor& where) {
      return reshape(index_select(text, 0, where.flatten()), at.shape());
    };
    input = letters(at);
    target = letters(at + 1);
  }
};

/// The starts of windows in random order. No window repeats within an epoch. Each epoch has another offset.
class Windows {
 public:
  Windows(const fit::Tensor& text, std::int64_t length) : letters_(text.numel()), length_(length) {}
  /// The next `batch` starts: [B].
  fit::Tensor next(std::int64_t batch) {
    if (!starts_.defined() || read_ + batch > starts_.numel()) {
      starts_ = length_ * fit::randperm(letters_ / length_ - 1) + fit::randint(0, length_, {1});
      read_ = 0;
    }
    read_ += batch;
    return starts_[{fit::range(read_ - batch, read_)}];
  }

  /// The starts of this epoch, and how many were read: a part of a Checkpoint.
  fit::StateDict state_dict() const {
    return {{"starts", starts_.defined() ? starts_ : fit::zeros({0})},
            {"read", fit::full({}, static_cast<double>(read_))}};
  }
  void load_state_dict(const fit::StateDict& state) {
    starts_ = state.at(0).second;
    read_ = static_cast<std::int64_t>(state.at(1).second.item());
  }

 private:
  std::int64_t letters_, length_, read_ = 0;
  fit::Tensor starts_;
};

/// The mean loss in nats per letter over all windows of the text, one behind the other. All positions count.
inline double mean_loss(fit::nn::GPT& model, const fit::Tensor& text, std::int64_t length, std::int64_t batch) {
  const fit::NoGrad no_grad;
  model.eval();
  double total = 0;
  const fit::dist::Rows windows((text.numel() - 1) / length, fit::dist::world().rank(), fit::dist::world().size());
  for (const fit::Tensor& some : split(length * (windows.first + fit::arange(windows.count)), batch)) {
    const Letters b(text, some, length);
    total += model.loss(b.input, b.target).item() * static_cast<double>(some.numel());
  }
  model.train();
  const auto count = static_cast<double>(windows.count);
  return fit::dist::mean(total / count, count);
}

}  // namespace example
