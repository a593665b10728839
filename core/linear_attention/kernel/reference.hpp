#pragma once
#include <cmath>
#include <vector>

#include "linear_attention/kernel/kernel.hpp"

// The recurrence of linear attention in plain loops. The kernels are tested against it.
namespace fit::kernels::reference {

template <class T>
void linear_attention_forward(const LinearAttention<T>& a, T* out, T* state) {
  std::vector<T> u(a.Dv);
  for (std::int64_t h = 0; h < a.heads; ++h) {
    T* const S = state + h * a.D * a.Dv;
    for (std::int64_t i = 0; i < a.D * a.Dv; ++i) S[i] = a.initial ? a.initial[h * a.D * a.Dv + i] : T(0);
    for (std::int64_t t = h * a.steps; t < (h + 1) * a.steps; ++t) {
      const T *const q = a.q + t * a.D, *const k = a.k + t * a.D, *const v = a.v + t * a.Dv;
      for (std::int64_t d = 0; d < a.D && a.decay; ++d)
        for (std::int64_t e = 0; e < a.Dv; ++e) S[d * a.Dv + e] *= std::exp(a.decay[a.by_feature ? t * a.D + d : t]);
      for (std::int64_t e = 0; e < a.Dv; ++e) {
        T found = 0;
        for (std::int64_t d = 0; d < a.D; ++d) found += S[d * a.Dv + e] * k[d];
        u[e] = a.beta ? a.beta[t] * (v[e] - found) : v[e];
      }
      for (std::int64_t e = 0; e < a.Dv; ++e) {
        T sum = 0;
        for (std::int64_t d = 0; d < a.D; ++d) {
          S[d * a.Dv + e] += k[d] * u[e];
          sum += S[d * a.Dv + e] * q[d];
        }
        out[t * a.Dv + e] = a.scale * sum;
      }
    }
  }
}

}  // namespace fit::kernels::reference
