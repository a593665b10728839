#pragma once
#include "fit/tensor.hpp"
#include "kernels/attention.hpp"

// The one place where weights can be looked at while attention runs: whoever wants them sets the tap of the thread.
namespace fit::detail {

/// One element of the batch of a call.
struct TappedAttention {
  Tensor weights;  // [H, Sq, Sk], before dropout, outside the graph
  Tensor mask;     // boolean [H|1, 1|Sq, Sk], or undefined
  bool causal;
  std::int64_t window;
};

class AttentionTap {
 public:
  /// element: of the batch; a call that has no such element passes unseen. next: one that looks on as well, or null.
  AttentionTap(std::int64_t element, AttentionTap* next) : element_(element), next_(next) {}
  virtual void take(const TappedAttention& call) = 0;
  std::int64_t element() const { return element_; }
  AttentionTap* next() const { return next_; }

 protected:
  ~AttentionTap() = default;

 private:
  std::int64_t element_;
  AttentionTap* next_;
};

/// Null unless somebody looks on: then a call of attention costs no more than to see that.
inline thread_local AttentionTap* attention_tap = nullptr;

/// Hands each tap what it wants of a call whose stats are known. mask is that of the options, boolean (B|1, H|1, 1|Sq,
/// Sk + skipped), of whose keys the call has skipped the first.
template <class T>
void tap_attention(kernels::Attention<T> call, kernels::SoftmaxStats<const kernels::SumOf<T>> stats, const Tensor& mask,
                   std::int64_t skipped = 0);

}  // namespace fit::detail
