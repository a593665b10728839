#pragma once
#include "attention/attend.hpp"
#include "fit/observer.hpp"

// Tells observers of attention, and lets them change it.
namespace fit::detail {

/// Whether there are observers to tell of a call here.
bool attention_observed();

/// Tells the observers of a call; weights(first, count) computes the weights of elements of the batch.
void notify_attention(const AttentionInfo& info, AttentionEvent::Weights weights);

/// Offers heads to the observers as a value [B, heads, S, features] (see fit/named_values.hpp). Returns h itself unless
/// they replace it.
Heads observed_heads(const char* name, const Heads& h);

/// The observers that change a call of attention.
class AttentionEdits {
 public:
  explicit AttentionEdits(const AttentionInfo& info) : info_(info) {}
  /// Whether there are any.
  bool wanted() const;
  /// Each returns x, or the tensor that the observers put there instead.
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
