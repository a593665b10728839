#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/nn/layer.hpp"
#include "fit/option.hpp"

namespace fit::nn {

/// The options of LSTM and GRU.
struct RecurrentOptions {
  FIT_OPTION(std::int64_t, num_layers) = 1;  ///< The number of layers: each reads the outputs of the one below.
  FIT_OPTION(bool, bias) = true;             ///< Whether there are bias_ih and bias_hh.
  FIT_OPTION(double, dropout) = 0;           ///< The dropout of the outputs of all layers but the last.
  FIT_OPTION(bool, bidirectional) = false;   ///< Each layer also reads from the end to the beginning.
};

/// What a recurrent layer carries from step to step: h, and the LSTM's c, of layer 0 forwards, of layer 0 backwards if
/// it reads both ways, of layer 1 …: [num_layers (2), B, H]. Undefined ones start as zeros.
struct RecurrentState {
  Tensor h, c;
};
/// The h of every step of the last layer, [B, T, H], or [B, T, 2 H] forwards and backwards side by side, and the state
/// after the last step.
struct RecurrentResult {
  Tensor output;
  RecurrentState state;
};

/// What LSTM and GRU share. Their parameters are PyTorch's in name and layout, so that its weights load as they are:
/// weight_ih_l0 [gates H, in], weight_hh_l0 [gates H, H], bias_ih_l0, bias_hh_l0 [gates H], those of the other
/// direction with _reverse behind, then l1 …; uniform in ±1/sqrt(H) at first. The batch is the first axis (PyTorch:
/// batch_first = True).
class Recurrent : public UnaryLayer {
 public:
  /// The outputs of all steps of x [B, T, in] (T >= 1), from a state of zeros: [B, T, H (2)].
  Tensor forward(const Tensor& x) const override { return run(x, {}).output; }
  using UnaryLayer::operator();
  /// The same from a state of one's own, and the state after the last step.
  RecurrentResult operator()(const Tensor& x, const RecurrentState& state) const {
    return within(*this, [&] { return run(x, state); });
  }
  std::string describe() const override;
  /// The features of x, and those of h.
  std::int64_t input_size() const { return input_size_; }
  std::int64_t hidden_size() const { return hidden_size_; }
  /// As given.
  const RecurrentOptions& options() const { return options_; }

 protected:
  /// One direction of one layer.
  struct Weights {
    Parameter weight_ih, weight_hh, bias_ih, bias_hh;
  };
  /// The h of all steps, [B, T, H], and the last c, [B, H].
  struct Steps {
    Tensor h, c;
  };
  Recurrent(const char* name, std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size,
            const RecurrentOptions& options);
  /// From the input's share of the gates, [B, T, gates H], and the first h and c; weight and bias are those of h.
  virtual Steps steps(const Tensor& of_x, const Tensor& weight, const Tensor& bias, const Tensor& h,
                      const Tensor& c) const = 0;
  void list(Fields& f);

 private:
  RecurrentResult run(const Tensor& x, const RecurrentState& state) const;
  Tensor initial(const char* name, const Tensor& given, const Tensor& x) const;
  std::size_t directions() const { return options_.bidirectional() ? 2 : 1; }

  const char* name_;
  std::int64_t input_size_, hidden_size_;
  RecurrentOptions options_;
  std::vector<Weights> weights_;  // in the order of the state
};

/// Hochreiter & Schmidhuber 1997: i, f, o = sigmoid and g = tanh of the gates (in the order i, f, g, o);
/// c' = f c + i g, h' = o tanh(c').
class LSTM final : public Recurrent {
 public:
  /// Throws Error for sizes or a number of layers that are not positive, and a dropout outside 0 … 1.
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {});
  void fields(Fields& f) override { f.self(*this), list(f); }

 protected:
  Steps steps(const Tensor& of_x, const Tensor& weight, const Tensor& bias, const Tensor& h,
              const Tensor& c) const override;
};

/// Cho et al. 2014, in PyTorch's form: r, z = sigmoid of the gates (in the order r, z, n); n = tanh(x's + r h's),
/// h' = (1 - z) n + z h. c isn't used.
class GRU final : public Recurrent {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {});
  void fields(Fields& f) override { f.self(*this), list(f); }

 protected:
  Steps steps(const Tensor& of_x, const Tensor& weight, const Tensor& bias, const Tensor& h,
              const Tensor& c) const override;
};

}  // namespace fit::nn
