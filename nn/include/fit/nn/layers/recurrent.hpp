#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/layer/layer.hpp"

namespace fit::nn {

/// The options of LSTM, GRU and RNN.
struct RecurrentOptions {
  FIT_OPTION(std::int64_t, num_layers) = 1;  ///< The number of layers: each reads the outputs of the layer below.
  FIT_OPTION(bool, bias) = true;             ///< Whether there are bias_ih and bias_hh.
  FIT_OPTION(double, dropout) = 0;           ///< The dropout between the layers: an Error with one layer.
  FIT_OPTION(bool, bidirectional) = false;   ///< Each layer also reads from the end to the beginning.
};

/// The state of a recurrent layer between steps: h, and c for an LSTM, [num_layers, B, H]. If bidirectional, the first
/// axis has 2 num_layers entries: layer 0 forwards, layer 0 backwards, layer 1 … An undefined tensor means zeros.
struct RecurrentState {
  Tensor h, c;
};
/// `output` is h of every step of the last layer, [B, T, H]. If bidirectional, both directions are concatenated:
/// [B, T, 2 H]. `state` is the state after the last step.
struct RecurrentResult {
  Tensor output;
  RecurrentState state;
};

/// The base of LSTM, GRU and RNN. Names and layouts of parameters are PyTorch's, so PyTorch's weights load directly:
/// weight_ih_l0 [gates H, in], weight_hh_l0 [gates H, H], bias_ih_l0, bias_hh_l0 [gates H], then l1 … The backward
/// direction has the suffix _reverse. The initial values are uniform in ±1/sqrt(H). The batch is the first axis
/// (PyTorch: batch_first = True).
class Recurrent : public UnaryLayer {
 public:
  /// The outputs of all steps of x [B, T, in] (T >= 1), from a state of zeros: [B, T, H], or [B, T, 2 H].
  Tensor forward(const Tensor& x) const override { return run(x, {}, {}).output; }
  using UnaryLayer::operator();
  /// The same from a given state. Also returns the state after the last step.
  ///
  /// `lengths` is for sequences of unequal lengths: int64 [B], each 1 … T (PyTorch: pack_padded_sequence). Row b has
  /// lengths[b] steps. The padding behind is not read, and the outputs there are 0. The state is the one after the last
  /// step of each row; the backward direction begins at that step. An undefined tensor means T for all rows.
  RecurrentResult operator()(const Tensor& x, const RecurrentState& state, const Tensor& lengths = {}) const;
  std::string describe() const override;
  /// The number of features of x, and of h.
  std::int64_t input_size() const { return input_size_; }
  std::int64_t hidden_size() const { return hidden_size_; }
  /// The options of the constructor.
  const RecurrentOptions& options() const { return options_; }

 protected:
  /// One direction of one layer.
  struct Weights {
    Parameter weight_ih, weight_hh, bias_ih, bias_hh;
  };
  /// Runs all steps. of_x [B, T, gates H] is the input's part of the gates. weight and bias are weight_hh and bias_hh.
  /// h and c are the initial state. Returns h of all steps, [B, T, H], and the last c, [B, H].
  using Steps = std::pair<Tensor, Tensor> (*)(const Tensor& of_x, const Tensor& weight, const Tensor& bias,
                                              const Tensor& h, const Tensor& c);
  Recurrent(const char* name, std::int64_t gates, Steps steps, std::int64_t input_size, std::int64_t hidden_size,
            const RecurrentOptions& options);
  void list(Fields& f);

 private:
  RecurrentResult run(const Tensor& x, const RecurrentState& state, const Tensor& lengths) const;
  Tensor initial(const char* name, const Tensor& given, const Tensor& x) const;
  std::size_t directions() const { return options_.bidirectional() ? 2 : 1; }

  const char* name_;
  Steps steps_;
  std::int64_t input_size_, hidden_size_;
  RecurrentOptions options_;
  std::vector<Weights> weights_;  // in the order of the state
};

/// Hochreiter & Schmidhuber 1997: i, f, o = sigmoid and g = tanh of the gates (in the order i, f, g, o);
/// c' = f c + i g, h' = o tanh(c').
class LSTM final : public Recurrent {
 public:
  /// Throws Error for sizes or a number of layers that are not positive, a dropout outside 0 … 1, and a dropout with
  /// one layer.
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {});
  explicit LSTM(...) = delete;  // give (input_size, hidden_size, RecurrentOptions()…)
  void fields(Fields& f) override;
};

/// Cho et al. 2014, in PyTorch's form: r, z = sigmoid of the gates (in the order r, z, n); n = tanh(x's + r h's),
/// h' = (1 - z) n + z h. It does not use c.
class GRU final : public Recurrent {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {});
  explicit GRU(...) = delete;  // give (input_size, hidden_size, RecurrentOptions()…)
  void fields(Fields& f) override;
};

/// Elman 1990: h' = tanh(x's + h's), with one gate. It does not use c.
class RNN final : public Recurrent {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {});
  explicit RNN(...) = delete;  // give (input_size, hidden_size, RecurrentOptions()…)
  void fields(Fields& f) override;
};

}  // namespace fit::nn
