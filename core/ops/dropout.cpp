#include "ops/dropout.hpp"

#include "fit/parallel.hpp"
#include "kernels/random.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

Tensor dropout_at(const Tensor& x, double p, std::uint64_t seed, std::uint64_t call) {
  constexpr std::int64_t grain = 1 << 13;
  static_assert(grain % kernels::random_group == 0);
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const to = y.fresh<T>();
    const T* const from = x.data<T>().data();
    parallel_for(x.numel(), grain, [&](std::int64_t i, std::int64_t end) {
      kernels::random<T>().dropout(to + i, from + i, {seed, call}, i, end - i, kernels::drop_limit(p),
                                   static_cast<T>(kernels::keep_scale(p)));
    });
  });
  return record("dropout", {x}, std::move(y), keep::nothing,
                [p, seed, call](Backward& b) { b.give(0, dropout_at(b.dy(), p, seed, call)); });
}

Tensor dropout(const Tensor& x, double p, Generator& g) {
  check::floating("dropout", "x", x);
  if (!(p >= 0 && p <= 1)) check::fail("dropout", "p is ", p, ": it must be in 0 … 1");
  return p == 0 ? x : dropout_at(x, p, g.seed(), g.next_call());
}

}  // namespace fit
