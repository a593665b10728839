#include "ops/elementwise/dropout.hpp"

#include <algorithm>

#include "fit/threads/parallel.hpp"
#include "kernels/random.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/linalg/batch_rows.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

namespace {

// Dropout of n elements whose first number is not a multiple of the kernels' group.
template <class T>
void drop_some(T* to, const T* from, kernels::RandomKey key, std::int64_t first, std::int64_t n, double p) {
  std::uint32_t word[kernels::random_group];
  kernels::random<float>().words(word, key, first, n);
  const std::uint32_t limit = kernels::drop_limit(p);
  const auto scale = static_cast<AccT<T>>(kernels::keep_scale(p));
  for (std::int64_t i = 0; i < n; ++i) to[i] = word[i] <= limit ? T(0) : T(from[i] * scale);
}

}  // namespace

Tensor dropout_at(const Tensor& x, double p, std::uint64_t seed, std::uint64_t call, std::int64_t first) {
  constexpr std::int64_t grain = 1 << 13, group = kernels::random_group;
  static_assert(grain % group == 0 && bfloat16_block % group == 0);
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = AccT<T>;
    T* const to = y.fresh<T>();
    const T* const from = x.data<T>().data();
    const std::int64_t head = std::min((group - first % group) % group, x.numel());
    if (head > 0) drop_some<T>(to, from, {seed, call}, first, head, p);
    parallel_for(x.numel() - head, grain, [&](std::int64_t begin, std::int64_t end) {
      ReadBlock<T> read;
      WriteBlock<T> write;
      const std::int64_t step = std::is_same_v<T, W> ? end - begin : bfloat16_block;
      for (std::int64_t i = head + begin; i < head + end; i += step) {
        const std::int64_t n = std::min(step, head + end - i);
        kernels::random<W>().dropout(write.buffer(to + i), read(from + i, n, 1), {seed, call}, first + i, n,
                                     kernels::drop_limit(p), static_cast<W>(kernels::keep_scale(p)));
        write.done(to + i, n);
      }
    });
  });
  return record("dropout", {x}, std::move(y), keep::nothing,
                [p, seed, call, first](Backward& b) { b.give(0, dropout_at(b.dy(), p, seed, call, first)); });
}

Tensor dropout(const Tensor& x, double p, Generator& g) {
  check::floating("dropout", "x", x);
  if (!(p >= 0 && p <= 1)) check::fail("dropout", "p is ", p, ": it must be in 0 … 1");
  return p == 0 ? x : dropout_at(x, p, g.seed(), g.next_call(), batch_rows.first_element(x.shape()));
}

}  // namespace fit
