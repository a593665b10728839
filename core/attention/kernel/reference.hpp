#pragma once
#include <cmath>
#include <limits>

#include "attention/kernel/kernel.hpp"

// The formula of attention in plain loops. Kernels are tested against it. It stores the weights P [B, H, Sq, Sk]; F, of
// the same shape, are the factors of dropout.
namespace fit::kernels::reference {

template <class T>
T dot(const T* x, const T* y, std::int64_t n) {
  T sum = 0;
  for (std::int64_t d = 0; d < n; ++d) sum += x[d] * y[d];
  return sum;
}

template <class T>
void add_scaled(T* y, T factor, const T* x, std::int64_t n) {
  for (std::int64_t d = 0; d < n; ++d) y[d] += factor * x[d];
}

/// Calls row(b, h, kv, i, the row's index) for all queries; kv is the head of k and v.
template <class T, class F>
void each_query(const Attention<T>& a, const F& row) {
  for (std::int64_t b = 0; b < a.B; ++b)
    for (std::int64_t h = 0; h < a.H; ++h)
      for (std::int64_t i = 0; i < a.Sq; ++i) row(b, h, h / a.group(), i, (b * a.H + h) * a.Sq + i);
}

/// P = softmax of scale q k' + bias - alibi |place(i) - j| over the keys that query i attends to, and of the sink; 0
/// for other keys.
template <class T>
void attention_weights(const Attention<T>& a, T* P) {
  each_query(a, [&](auto b, auto h, auto kv, auto i, auto r) {
    T* const p = P + r * a.Sk;
    T m = a.sink ? a.sink[h] : -std::numeric_limits<T>::infinity();
    for (std::int64_t j = 0; j < a.Sk; ++j) {
      if (!a.attends(b, h, i, j)) continue;
      p[j] = static_cast<T>(a.scale) * dot(a.q.at(b, h, i), a.k.at(b, kv, j), a.D);
      if (a.bias.data) p[j] += a.bias.at(b, h, i)[j];
      if (a.alibi) p[j] -= a.alibi[h] * static_cast<T>(std::abs(a.place(i) - j));
      m = std::fmax(m, p[j]);
    }
    T l = a.sink ? std::exp(a.sink[h] - m) : T(0);
    for (std::int64_t j = 0; j < a.Sk; ++j)
      if (a.attends(b, h, i, j)) l += p[j] = std::exp(p[j] - m);
    for (std::int64_t j = 0; j < a.Sk; ++j) p[j] = a.attends(b, h, i, j) ? p[j] / l : T(0);
  });
}

/// out = (F P) v
template <class T>
void attention_forward(const Attention<T>& a, const T* P, const T* F, const HeadView<T>& out) {
  each_query(a, [&](auto b, auto h, auto kv, auto i, auto r) {
    for (std::int64_t d = 0; d < a.Dv; ++d) out.at(b, h, i)[d] = 0;
    for (std::int64_t j = 0; j < a.Sk; ++j)
      if (a.attends(b, h, i, j)) add_scaled(out.at(b, h, i), F[r * a.Sk + j] * P[r * a.Sk + j], a.v.at(b, kv, j), a.Dv);
  });
}

/// Adds to the gradients, from those of the output and of the weights:
///   dP = F (dout v') + dweights,  dS = P (dP - sum over j of P dP)
///   dq = scale dS k,  dk = scale dS' q,  dv = (F P)' dout,  dbias = dS,  dsink = -(1 - sum over j of P) (sum of P dP)
template <class T>
void attention_backward(const Attention<T>& a, const T* P, const T* F, const HeadView<const T>& dout, const T* dweights,
                        const AttentionGradients<T>& d) {
  each_query(a, [&](auto b, auto h, auto kv, auto i, auto r) {
    const T* const p = P + r * a.Sk;
    const auto dP = [&](std::int64_t j) {
      return F[r * a.Sk + j] * dot(dout.at(b, h, i), a.v.at(b, kv, j), a.Dv) + dweights[r * a.Sk + j];
    };
    T mean = 0, total = 0;
    for (std::int64_t j = 0; j < a.Sk; ++j)
      if (a.attends(b, h, i, j)) mean += p[j] * dP(j), total += p[j];
    if (d.dsink) d.dsink[h] -= (1 - total) * mean;
    for (std::int64_t j = 0; j < a.Sk; ++j) {
      if (!a.attends(b, h, i, j)) continue;
      const T dS = p[j] * (dP(j) - mean);
      add_scaled(d.dq.at(b, h, i), static_cast<T>(a.scale) * dS, a.k.at(b, kv, j), a.D);
      add_scaled(d.dk.at(b, kv, j), static_cast<T>(a.scale) * dS, a.q.at(b, h, i), a.D);
      add_scaled(d.dv.at(b, kv, j), F[r * a.Sk + j] * p[j], dout.at(b, h, i), a.Dv);
      if (d.dbias.data) d.dbias.at(b, h, i)[j] += dS;
    }
  });
}

}  // namespace fit::kernels::reference
