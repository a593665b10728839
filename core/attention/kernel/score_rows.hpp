#pragma once
#include "attention/kernel/kernel.hpp"
#include "kernels/simd/arena.hpp"

// The function of the scores of a call, for the rows of a tile. For *.simd.cpp files.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Calls the kernels that the function brings, if there is one.
template <class W>
class ScoreRows {
 public:
  ScoreRows(const AttentionScores<W>& a, std::int64_t b, std::int64_t h, Arena<W>& arena)
      : kernels_(a.score ? a.score->kernels : nullptr) {
    if (kernels_) kernels_->enter_head(state_, a, b, h, arena.take(a.score->workspace));
  }
  explicit operator bool() const { return kernels_; }

  void take_tile(const AttentionScores<W>& a, const TilePlace& tile) { kernels_->take_tile(state_, a, tile); }
  ScoreBlock<W> forward(const AttentionScores<W>& a, std::int64_t first, W* s, W* out) {
    return kernels_->forward(state_, a, first, s, out);
  }
  void backward(const std::uint64_t* attends, W* ds, W* tables) { kernels_->backward(state_, attends, ds, tables); }
  void leave_tile(W* tables) { kernels_->leave_tile(state_, tables); }
  void leave_head(W* tables) { kernels_->leave_head(state_, tables); }

 private:
  const ScoreKernels<W>* kernels_;
  ScoreState state_;
};

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
