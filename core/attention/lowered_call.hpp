#pragma once
#include <optional>
#include <tuple>
#include <vector>

#include "attention/attend.hpp"
#include "attention/score/lowering.hpp"

namespace fit::detail {

/// A call in the kernel's form. It points into the call, which must outlive it.
template <class T>
class LoweredCall {
 public:
  using W = AccT<T>;
  /// wanted: the tables of the function of scores that get gradients. Empty: none.
  explicit LoweredCall(const AttentionCall& call, std::vector<bool> wanted = {}) {
    static_cast<kernels::Attention<>&>(a_) = call.a;
    a_.q = view<T>(call.q()), a_.k = view<T>(call.k()), a_.v = view<T>(call.v());
    const auto data = [](const Tensor& x) { return static_cast<const W*>(x.defined() ? x.raw() : nullptr); };
    a_.bias = view_scores(data(call.bias), call.bias);
    a_.alibi = data(call.alibi), a_.sink = data(call.sink);
    if (!call.score) return;
    wanted.resize(call.score->tables.size());
    score_.emplace(std::get<decltype(lowered_score<W>)*>(call.score->methods->lower)(*call.score, wanted));
    a_.score = score_->program();
  }
  LoweredCall(const LoweredCall&) = delete;
  LoweredCall& operator=(const LoweredCall&) = delete;

  const kernels::Attention<T>& operator*() const { return a_; }
  const std::optional<LoweredScore<W>>& score() const { return score_; }

 private:
  kernels::Attention<T> a_;
  std::optional<LoweredScore<W>> score_;
};

/// stats [2, B, H, Sq]: both numbers of each row, in one tensor.
template <class W>
kernels::SoftmaxStats<W> stats_in(const kernels::Attention<>& a, W* data) {
  return {data, data + a.B * a.H * a.Sq};
}

}  // namespace fit::detail
