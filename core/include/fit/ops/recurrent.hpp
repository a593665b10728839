#pragma once
#include <utility>

#include "fit/tensor/tensor.hpp"

// All steps of a recurrent layer as one operation, for the layers of fit/nn/layers/recurrent.hpp. B sequences of T >=
// 1 steps, H features. Computed in the widest type of the operands, bfloat16 in float32, also under Autocast.
// They throw Error if the shapes of the operands don't agree.
namespace fit {

/// The steps of an LSTM (Hochreiter & Schmidhuber 1997) from the state h and c [B, H]. Returns h of all steps, [B, T,
/// H], and the last c, [B, H]. x [B, T, 4 H] is the input's part of the gates i, f, g, o, in this order. weight is [4
/// H, H]; bias is [4 H] or undefined:
///
///     i, f, g, o = x_t + h weight' + bias;  c = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c)
std::pair<Tensor, Tensor> lstm_steps(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& h,
                                     const Tensor& c);

/// The steps of a GRU (Cho et al. 2014, in PyTorch's form) from h [B, H]. Returns h of all steps, [B, T, H]. x [B, T, 3
/// H] is the input's part of the gates r, z, n. weight is [3 H, H]; bias is [3 H] or undefined:
///
///     s = h weight' + bias;  r = sigmoid(x_r + s_r);  z = sigmoid(x_z + s_z)
///     n = tanh(x_n + r s_n);  h = n + z (h - n)
Tensor gru_steps(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& h);

/// The steps of Elman's network (1990) from h [B, H]. Returns h of all steps, [B, T, H]. x [B, T, H] is the input's
/// part. weight is [H, H]; bias is [H] or undefined:
///
///     h = tanh(x_t + h weight' + bias)
Tensor rnn_steps(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& h);

}  // namespace fit
