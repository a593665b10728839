#include <algorithm>

#include "check.hpp"
#include "dispatch.hpp"
#include "fit/ops.hpp"
#include "fit/parallel.hpp"

namespace fit {
namespace {

struct Pairs {
  std::int64_t count, stride, apart;  // pair i is (i stride, i stride + apart)
};

// One row of heads, of `width` features, of which the first `features` turn.
template <class T>
void turn_row(T* to, const T* from, const double* table, const Pairs& p, std::int64_t features, std::int64_t width,
              double sign) {
  for (std::int64_t head = 0; head < features; head += 2 * p.count)
    for (std::int64_t i = 0; i < p.count; ++i) {
      const T c = static_cast<T>(table[2 * i]), s = static_cast<T>(sign * table[2 * i + 1]);
      const std::int64_t at = head + i * p.stride;
      const T x = from[at], y = from[at + p.apart];
      to[at] = x * c - y * s;
      to[at + p.apart] = x * s + y * c;
    }
  std::copy(from + features, from + width, to + features);
}

}  // namespace

Tensor rotary(const Tensor& x, const Tensor& table, RotaryLayout layout, std::int64_t features, std::int64_t offset,
              bool inverse) {
  constexpr const char* op = "rotary";
  check::floating(op, "x", x);
  if (x.rank() < 2) check::fail(op, "x is ", x.shape(), ": it must be [..., T, W]");
  check::dtype(op, "table", table, float64);
  const std::int64_t T = x.size(-2), W = x.size(-1);
  if (table.rank() != 3 || table.size(2) != 2 || table.size(1) == 0)
    check::fail(op, "table is ", table.shape(), ": it must be [T, D/2, 2], with D at least 2");
  if (offset < 0 || offset + T > table.size(0))
    check::fail(op, "x is ", x.shape(), ", offset ", offset, ", table ", table.shape(), ": the positions ", offset,
                " … ", offset + T - 1, " must be in the table");
  const std::int64_t D = 2 * table.size(1), turned = features == -1 ? W : features;
  if (turned < 0 || turned > W || turned % D != 0)
    check::fail(op, "x is ", x.shape(), ", features ", turned, ", table ", table.shape(),
                ": what turns must be whole heads of ", D, " features");
  const Pairs pairs = layout == RotaryLayout::interleaved ? Pairs{D / 2, 2, 1} : Pairs{D / 2, 1, D / 2};

  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const double* const angles = table.data<double>().data() + offset * D;
  dispatch_floating(x.dtype(), [&](auto zero) {
    using N = decltype(zero);
    const N* const from = x.data<N>().data();
    N* const to = y.fresh<N>();
    const std::int64_t rows = W == 0 ? 0 : x.numel() / W;
    parallel_for(rows, std::max<std::int64_t>(1, (1 << 14) / std::max<std::int64_t>(W, 1)),
                 [&](std::int64_t row, std::int64_t end) {
                   for (; row < end; ++row)
                     turn_row(to + row * W, from + row * W, angles + row % T * D, pairs, turned, W, inverse ? -1. : 1.);
                 });
  });
  return record(op, {x, table}, std::move(y), keep::input(1),
                [=](Backward& b) { b.give(0, rotary(b.dy(), b.x(1), layout, features, offset, !inverse)); });
}

}  // namespace fit
