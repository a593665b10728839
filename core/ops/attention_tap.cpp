#include "ops/attention_tap.hpp"

#include <type_traits>

#include "fit/ops.hpp"

namespace fit::detail {

template <class T>
void tap_attention(kernels::Attention<T> call, kernels::SoftmaxStats<const kernels::SumOf<T>> stats, const Tensor& mask,
                   std::int64_t skipped) {
  const NoGrad no_grad;
  using W = kernels::SumOf<T>;
  constexpr DType dtype = std::is_same_v<W, float> ? float32 : float64;
  for (AttentionTap* tap = attention_tap; tap; tap = tap->next()) {
    const std::int64_t b = tap->element();
    if (b >= call.B) continue;
    kernels::Attention<T> a = call;
    a.B = 1;
    a.q.data = a.q.at(b, 0, 0);
    a.k.data = a.k.at(b, 0, 0);
    a.v.data = a.v.at(b, 0, 0);
    if (a.mask.data) a.mask.data = a.mask.at(b, 0, 0);
    if (a.bias.data) a.bias.data = a.bias.at(b, 0, 0);
    const std::int64_t rows = b * a.H * a.Sq;
    Tensor weights = Tensor::empty({a.H, a.Sq, a.Sk}, dtype);
    kernels::attention_weights<T>(a, {stats.m + rows, stats.inv_l + rows}, weights.fresh<W>());
    if (skipped > 0) weights = cat({zeros({a.H, a.Sq, skipped}, dtype), weights}, -1);
    const Tensor shown = mask.defined() ? Tensor(mask[mask.size(0) == 1 ? 0 : b]) : mask;
    tap->take({weights, shown, a.causal, a.window});
  }
}

template void tap_attention<BFloat16>(kernels::Attention<BFloat16>, kernels::SoftmaxStats<const float>, const Tensor&,
                                      std::int64_t);
template void tap_attention<float>(kernels::Attention<float>, kernels::SoftmaxStats<const float>, const Tensor&,
                                   std::int64_t);
template void tap_attention<double>(kernels::Attention<double>, kernels::SoftmaxStats<const double>, const Tensor&,
                                    std::int64_t);

}  // namespace fit::detail
