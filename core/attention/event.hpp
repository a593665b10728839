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

/// Whether an observer changes a call.
bool edits_attention(const AttentionInfo& info);

/// x, or the tensor that the observers of a call put there instead. edit: Observer::edit_scores, ….
Tensor edited_attention(const AttentionInfo& info, const char* name,
                        void (Observer::*edit)(const AttentionInfo&, Tensor&), Tensor x);

}  // namespace fit::detail
