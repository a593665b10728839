#pragma once
#include <cstdint>
#include <string>

#include "fit/nn/layer.hpp"

namespace fit::nn {

/// What a recurrent layer carries from step to step: h [B, H], and the LSTM's c [B, H]. Undefined ones start as zeros.
struct RecurrentState {
  Tensor h, c;
};
/// The h of every step, [B, T, H], and the state after the last one.
struct RecurrentResult {
  Tensor output;
  RecurrentState state;
};

/// A row of gates from the input and the last h, which LSTM and GRU share: weights and biases of both, named and laid
/// out as PyTorch's (weight_ih [gates H, in], weight_hh [gates H, H]), uniform in ±1/sqrt(H) at first.
class Recurrent : public UnaryLayer {
 public:
  /// The outputs of all steps of x [B, T, in] (T >= 1), from a state of zeros: [B, T, H].
  Tensor forward(const Tensor& x) const override { return run(x, {}).output; }
  using UnaryLayer::operator();
  RecurrentResult operator()(const Tensor& x, const RecurrentState& state) const {
    return within(*this, [&] { return run(x, state); });
  }
  std::string describe() const override;
  std::int64_t input_size() const { return weight_ih.original().size(1); }
  std::int64_t hidden_size() const { return weight_hh.original().size(1); }

  Parameter weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  Recurrent(const char* name, std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size);
  /// The state after one step, from the input's share of the gates and the last h's: [B, gates H] each.
  virtual RecurrentState step(const Tensor& of_x, const Tensor& of_h, const RecurrentState& last) const = 0;

 private:
  RecurrentResult run(const Tensor& x, RecurrentState state) const;
  const char* name_;
};

/// Hochreiter & Schmidhuber 1997: i, f, o = sigmoid and g = tanh of the gates (in the order i, f, g, o);
/// c' = f c + i g, h' = o tanh(c').
class LSTM final : public Recurrent {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size);
  FIT_FIELDS(weight_ih, weight_hh, bias_ih, bias_hh)

 protected:
  RecurrentState step(const Tensor& of_x, const Tensor& of_h, const RecurrentState& last) const override;
};

/// Cho et al. 2014, in PyTorch's form: r, z = sigmoid of the gates (in the order r, z, n); n = tanh(x's + r h's),
/// h' = (1 - z) n + z h. c isn't used.
class GRU final : public Recurrent {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size);
  FIT_FIELDS(weight_ih, weight_hh, bias_ih, bias_hh)

 protected:
  RecurrentState step(const Tensor& of_x, const Tensor& of_h, const RecurrentState& last) const override;
};

}  // namespace fit::nn
