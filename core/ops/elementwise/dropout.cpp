#include "ops/elementwise/dropout.hpp"

#include <algorithm>

#include "fit/threads/parallel.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/linalg/batch_rows.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

namespace {

// Dropout of n elements whose first number is not a multiple of the kernels' group.
template <class T>
void drop_some(T* to, const T* from, const kernels::Dropout& d, std::int64_t n) {
  std::uint32_t word[kernels::random_group];
  kernels::random<float>().words(word, d.key, d.first, n);
  const auto kept = static_cast<AccT<T>>(d.kept);
  for (std::int64_t i = 0; i < n; ++i) to[i] = word[i] <= d.limit ? T(0) : T(from[i] * kept);
}

}  // namespace

kernels::Dropout draw_dropout(double p, Generator* given, const Shape& shape) {
  if (p == 0) return {};
  Generator& g = given ? *given : default_generator();
  return kernels::Dropout(p, g.next(), batch_rows.first_element(shape));
}

Tensor dropped(const Tensor& x, const kernels::Dropout& d) {
  constexpr std::int64_t grain = 1 << 13, group = kernels::random_group;
  static_assert(grain % group == 0 && kernels::wide_block % group == 0);
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = AccT<T>;
    T* const to = y.fresh<T>();
    const T* const from = x.data<T>().data();
    const std::int64_t head = std::min((group - d.first % group) % group, x.numel());
    if (head > 0) drop_some<T>(to, from, d, head);
    parallel_for(x.numel() - head, grain, [&](std::int64_t begin, std::int64_t end) {
      kernels::WideBlock<T> of_x, of_y;
      const std::int64_t step = kernels::block_length<T>(end - begin);
      for (std::int64_t i = head + begin; i < head + end; i += step) {
        const std::int64_t n = std::min(step, head + end - i);
        kernels::random<W>().dropout(of_y.target(to + i), of_x.read(from + i, n), d, d.first + i, n);
        of_y.store(to + i, n);
      }
    });
  });
  return record("dropout", {x}, std::move(y), keep::nothing, [d](Backward& b) { b.give(0, dropped(b.dy(), d)); });
}

Tensor dropout(const Tensor& x, double p, Generator& g) {
  check::floating("dropout", "x", x);
  if (!(p >= 0 && p <= 1)) check::fail("dropout", "p is ", p, ": it must be in 0 … 1");
  return p == 0 ? x : dropped(x, draw_dropout(p, &g, x.shape()));
}

}  // namespace fit
