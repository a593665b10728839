#pragma once
#include "fit/observer.hpp"
#include "ops/attention.hpp"

// Reports attention to observers, and applies their edits.
namespace fit::detail {

/// Tells the observers of a call whose stats are known. mask is that of the options, boolean (B|1, H|1, 1|Sq,
/// Sk + skipped); the call has skipped the first keys.
template <class T>
void tell_attention(const kernels::Attention<T>& call, kernels::SoftmaxStats<const Wide<T>> stats, const Tensor& mask,
                    std::int64_t skipped = 0);

/// The observers who change a call of attention.
class AttentionEdits {
 public:
  AttentionEdits(const AttentionCall& call, const Tensor& mask);
  /// Whether there are any.
  bool wanted() const;
  /// Each gives x, or what the observers have put in its place.
  Tensor scores(const Tensor& x) const { return edited("the scores", &Observer::edit_scores, x); }
  Tensor weights(const Tensor& x) const { return edited("the weights", &Observer::edit_weights, x); }
  /// x [B, H, Sq, Dv], or [B, Sq, H, Dv] with heads last.
  Tensor output(const Tensor& x, HeadLayout heads) const;
  /// Tells all observers of the weights.
  void tell(const Tensor& weights) const;

 private:
  using Edit = void (Observer::*)(const AttentionInfo&, Tensor&);
  Tensor edited(const char* name, Edit edit, Tensor x) const;
  AttentionInfo info_;
};

}  // namespace fit::detail
