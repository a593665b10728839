#pragma once
#include <atomic>

#include "fit/attention_recording.hpp"
#include "fit/nn/layer.hpp"

namespace fit::nn::detail {

inline std::atomic<int> living_recorders{0};

/// Around a layer's call of attention: lets the recorders that live see its weights.
class Recorded {
 public:
  explicit Recorded(const Layer& layer, AttentionKind kind = AttentionKind::self) {
    if (living_recorders.load(std::memory_order_relaxed) != 0) begin(layer, kind);
  }
  /// Self-attention if the queries come from where the keys come from.
  Recorded(const Layer& layer, const Tensor& query, const Tensor& key) {
    if (living_recorders.load(std::memory_order_relaxed) != 0)
      begin(layer, query.raw() == key.raw() ? AttentionKind::self : AttentionKind::cross);
  }
  ~Recorded() {
    if (taps_) end();
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

 private:
  class Taps;
  void begin(const Layer& layer, AttentionKind kind);
  void end();
  Taps* taps_ = nullptr;
};

}  // namespace fit::nn::detail
