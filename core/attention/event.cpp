#include "attention/attend.hpp"
#include "fit/graph/named_values.hpp"
#include "fit/ops/ops.hpp"
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
std::optional<AttentionInfo> observed_call(const AttentionCall& call) {
  if (!thread_state.observed) return {};
  const kernels::Attention<>& a = call.a;
  notify_flops(2 * a.B * a.H * a.pairs() * (a.D + a.Dv));
  bool any = false;
  notify_both(attached_here(), [&](const Observer&) { any = true; });
  if (!any) return {};
  const Tensor& given = call.options.mask();
  const Tensor mask = call.attends      ? call.plan.mask(a.Sq, a.Sk)
                      : given.defined() ? boolean_mask(call.op, given, call.scores())
                                        : given;
  return AttentionInfo{a.B, a.H, a.Sq, a.Sk, mask, a.causal, a.window, innermost_call()};
}

void notify_attention(const AttentionInfo& info, AttentionEvent::Weights weights) {
  const AttentionEvent event(info, std::move(weights));
  notify_both(attached_here(), [&](Observer& o) { o.attention_computed(event); });
}

bool edits_attention(const AttentionInfo& info) {
  bool any = false;
  notify_both(attached_here(), [&](const Observer& o) { any = any || o.edits_attention(info); });
  return any;
}

Tensor edited_attention(const AttentionInfo& info, const char* name,
                        void (Observer::*edit)(const AttentionInfo&, Tensor&), Tensor x) {
  notify_both(attached_here(), [&](Observer& o) {
    if (o.edits_attention(info))
      x = edited("attention", name, std::move(x), [&](Tensor& now) { (o.*edit)(info, now); });
  });
  return x;
}

Heads observed_heads(const char* name, const Heads& h) {
  if (!fit::value_wanted(name)) return h;
  const Shape& s = h.x.shape();
  const Tensor x = split_heads(h), y = observed(name, x);
  if (y.impl() == x.impl()) return h;
  if (h.layout == HeadLayout::first) return {reshape(y, s), HeadLayout::first, h.heads, h.features, 0};
  return {reshape(transpose(y, 1, 2), {s[0], s[1], h.heads * h.features}), HeadLayout::last, h.heads, h.features, 0};
}

}  // namespace detail
}  // namespace fit
