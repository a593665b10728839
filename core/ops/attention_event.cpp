#include "ops/attention_event.hpp"

#include <type_traits>

#include "fit/ops.hpp"
#include "graph/observers.hpp"
#include "tensor/check.hpp"

namespace fit {

Tensor AttentionInfo::mask_of(std::int64_t element) const {
  return mask.defined() ? Tensor(mask[mask.size(0) == 1 ? 0 : element]) : mask;
}

Tensor AttentionEvent::weights() const { return weights_(0, B); }
Tensor AttentionEvent::weights(std::int64_t element) const {
  if (element < 0 || element >= B) check::fail("AttentionEvent", "element is ", element, ": it must be in 0 … ", B - 1);
  return reshape(weights_(element, 1), {H, Sq, Sk});
}

namespace detail {
namespace {

// The weights [count, H, Sq, skipped + Sk] of some elements of the batch.
template <class T>
Tensor weights_of(kernels::Attention<T> a, kernels::SoftmaxStats<const Wide<T>> stats, std::int64_t skipped,
                  std::int64_t first, std::int64_t count) {
  const NoGrad no_grad;
  constexpr DType dtype = std::is_same_v<Wide<T>, float> ? float32 : float64;
  a.B = count;
  a.q.data = a.q.at(first, 0, 0);
  a.k.data = a.k.at(first, 0, 0);
  a.v.data = a.v.at(first, 0, 0);
  if (a.mask.data) a.mask.data = a.mask.at(first, 0, 0);
  if (a.bias.data) a.bias.data = a.bias.at(first, 0, 0);
  const std::int64_t rows = first * a.H * a.Sq;
  Tensor weights = Tensor::empty({count, a.H, a.Sq, a.Sk}, dtype);
  kernels::attention_weights<T>(a, {stats.m + rows, stats.inv_l + rows}, weights.fresh<Wide<T>>());
  return skipped > 0 ? cat({zeros({count, a.H, a.Sq, skipped}, dtype), weights}, -1) : weights;
}

void tell(const AttentionInfo& info, AttentionEvent::Weights weights) {
  const AttentionEvent event(info, std::move(weights));
  tell_both(attached_here(), [&](Observer& o) { o.attention_computed(event); });
}

}  // namespace

template <class T>
void tell_attention(const kernels::Attention<T>& call, kernels::SoftmaxStats<const Wide<T>> stats, const Tensor& mask,
                    std::int64_t skipped) {
  tell({call.B, call.H, call.Sq, call.Sk + skipped, mask, call.causal, call.window, innermost_call()},
       [=](std::int64_t first, std::int64_t count) { return weights_of(call, stats, skipped, first, count); });
}

template void tell_attention<BFloat16>(const kernels::Attention<BFloat16>&, kernels::SoftmaxStats<const float>,
                                       const Tensor&, std::int64_t);
template void tell_attention<float>(const kernels::Attention<float>&, kernels::SoftmaxStats<const float>, const Tensor&,
                                    std::int64_t);
template void tell_attention<double>(const kernels::Attention<double>&, kernels::SoftmaxStats<const double>,
                                     const Tensor&, std::int64_t);

AttentionEdits::AttentionEdits(const AttentionCall& c, const Tensor& mask)
    : info_{c.B, c.H, c.Sq, c.Sk, mask, c.causal, c.window, innermost_call()} {}

bool AttentionEdits::wanted() const {
  bool any = false;
  tell_both(attached_here(), [&](const Observer& o) { any = any || o.edits_attention(info_); });
  return any;
}

Tensor AttentionEdits::edited(const char* name, Edit edit, Tensor x) const {
  constexpr const char* op = "attention";
  tell_both(attached_here(), [&](Observer& o) {
    if (!o.edits_attention(info_)) return;
    Tensor now = x;
    const std::uint32_t version = x.version();
    (o.*edit)(info_, now);
    if (x.version() != version)
      check::fail(op, "an observer has changed ", name, " of shape ", x.shape(), " in place: assign another tensor");
    check::shape(op, name, now, x.shape());
    check::dtype(op, name, now, x.dtype());
    x = std::move(now);
  });
  return x;
}

Tensor AttentionEdits::output(const Tensor& x, HeadLayout heads) const {
  const auto edit = [&](const Tensor& y) { return edited("the output", &Observer::edit_output, y); };
  return heads == HeadLayout::first ? edit(x) : transpose(edit(transpose(x, 1, 2)), 1, 2);
}

void AttentionEdits::tell(const Tensor& weights) const {
  detail::tell(info_, [shown = weights.detach()](std::int64_t first, std::int64_t count) {
    return slice(shown, 0, first, first + count);
  });
}

}  // namespace detail
}  // namespace fit
