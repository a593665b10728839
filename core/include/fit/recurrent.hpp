#pragma once
#include <utility>

#include "fit/tensor.hpp"

// The steps of recurrent layers, one after another in one operation; nn::LSTM and nn::GRU (fit/nn/recurrent.hpp) are
// made of them. B sequences of T >= 1 steps, H features. Computed in the widest type of the operands, bfloat16 in
// float32, also under Autocast. Each throws Error for operands that don't fit each other.
namespace fit {

/// The steps of an LSTM (Hochreiter & Schmidhuber 1997) from h and c [B, H] on: the h of all steps, [B, T, H], and the
/// last c, [B, H]. x [B, T, 4 H] is the input's share of the gates i, f, g, o, which lie in this order; weight is [4 H,
/// H], and bias, which may be undefined, [4 H]:
///
///     i, f, g, o = x_t + h weight' + bias;  c = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c)
std::pair<Tensor, Tensor> lstm_steps(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& h,
                                     const Tensor& c);

/// The steps of a GRU (Cho et al. 2014, in PyTorch's form) from h [B, H] on: the h of all steps, [B, T, H]. x [B, T, 3
/// H] is the input's share of the gates r, z, n, weight [3 H, H], bias [3 H] or undefined:
///
///     s = h weight' + bias;  r = sigmoid(x_r + s_r);  z = sigmoid(x_z + s_z);  n = tanh(x_n + r s_n);  h = n + z (h -
///     n)
Tensor gru_steps(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& h);

}  // namespace fit
