#include "kernels/rows/rotary.hpp"

#include <algorithm>

#include "base/scratch.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/wide_row.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

namespace {

// Checks that the rows of x [..., T, W] have positions in the table.
void check_positions(const char* op, const Tensor& x, const Tensor& table, const RotaryOptions& o) {
  const std::int64_t T = x.size(-2), offset = o.offset(), length = table.size(0);
  const Tensor& positions = o.positions();
  if (!positions.defined()) {
    if (offset < 0 || T > length || offset > length - T)
      check::fail(op, "x is ", x.shape(), ", offset ", offset, ", table ", table.shape(), ": the ", T,
                  " positions from ", offset, " on must be in the table");
    return;
  }
  check::dtype(op, "positions", positions, int64);
  if (positions.shape() != Shape{T} && positions.shape() != x.shape().erased(x.rank() - 1))
    check::fail(op, "positions is ", positions.shape(), ", x is ", x.shape(),
                ": positions must be [T], or [..., T] as x [..., T, W]");
  if (offset != 0) check::fail(op, "offset is ", offset, ", and positions are given: only one of them may be");
  for (const std::int64_t p : positions.data<std::int64_t>())
    if (p < 0 || p >= length)
      check::fail(op, "a position is ", p, ", table is ", table.shape(), ": it must be in 0 … ", length - 1);
}

// Rotates the rows of x [..., T, W]: `rotated` features of each, in heads of `head` features, of which the first D
// turn.
template <class E>
void rotate_rows(const Tensor& x, Tensor& y, const Tensor& table, const RotaryOptions& o, std::int64_t rotated,
                 std::int64_t head) {
  using N = AccT<E>;
  const std::int64_t T = x.size(-2), W = x.size(-1), D = 2 * table.size(1), offset = o.offset();
  const double* const angles = table.data<double>().data();
  const Tensor& positions = o.positions();
  const std::int64_t* const at = positions.defined() ? positions.data<std::int64_t>().data() : nullptr;
  const std::int64_t period = positions.defined() && positions.rank() > 1 ? x.numel() : T;  // they repeat
  const E* const from = x.data<E>().data();
  E* const to = y.fresh<E>();
  const std::int64_t rows = W == 0 ? 0 : x.numel() / W;
  const auto& kernels = kernels::rotary<N>();
  const auto one = o.layout() == RotaryLayout::interleaved ? kernels.interleaved : kernels.half_split;
  const auto rotate = [=](N* out, const N* in, const N* cosine, const N* sine) {
    if (head == D) return one(out, in, cosine, sine, D / 2, rotated / D);
    for (std::int64_t h = 0; h < rotated; h += head) {
      one(out + h, in + h, cosine, sine, D / 2, 1);
      std::copy(in + h + D, in + h + head, out + h + D);
    }
  };
  parallel_for(rows, std::max<std::int64_t>(1, (1 << 14) / std::max<std::int64_t>(W, 1)),
               [&](std::int64_t row, std::int64_t end) {
                 const kernels::Scratch<N> scratch(D);
                 kernels::WideRow<E> of_x(rotated), of_y(rotated);
                 N *const cosine = scratch.get(), *const sine = cosine + D / 2;
                 for (; row < end; ++row) {
                   const double* const angle = angles + (at ? at[row % period] : offset + row % T) * D;
                   for (std::int64_t i = 0; i < D / 2; ++i) {
                     cosine[i] = static_cast<N>(angle[2 * i]);
                     sine[i] = static_cast<N>(o.inverse() ? -angle[2 * i + 1] : angle[2 * i + 1]);
                   }
                   rotate(of_y.target(to + row * W), of_x.read(from + row * W, rotated), cosine, sine);
                   of_y.store(to + row * W, rotated);
                   std::copy(from + row * W + rotated, from + (row + 1) * W, to + row * W + rotated);
                 }
               });
}

}  // namespace

Tensor rotary(const Tensor& x, const Tensor& table, const RotaryOptions& options) {
  constexpr const char* op = "rotary";
  check::floating(op, "x", x);
  if (x.rank() < 2) check::fail(op, "x is ", x.shape(), ": it must be [..., T, W]");
  check::dtype(op, "table", table, float64);
  if (table.rank() != 3 || table.size(2) != 2 || table.size(1) == 0)
    check::fail(op, "table is ", table.shape(), ": it must be [T, D/2, 2], with D at least 2");
  check_positions(op, x, table, options);
  const std::int64_t W = x.size(-1), D = 2 * table.size(1);
  const std::int64_t rotated = options.features() == -1 ? W : options.features();
  const std::int64_t head = options.head_size() == 0 ? D : options.head_size();
  if (head < D)
    check::fail(op, "head_size is ", head, ", table ", table.shape(), ": a head has at least ", D, " features");
  if (rotated < 0 || rotated > W || rotated % head != 0)
    check::fail(op, "x is ", x.shape(), ", features ", rotated, ", table ", table.shape(),
                ": what is rotated must be whole heads of ", head, " features");

  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_floating(x.dtype(), [&](auto zero) { rotate_rows<decltype(zero)>(x, y, table, options, rotated, head); });
  const auto adjoint = [layout = options.layout(), rotated, head, offset = options.offset(),
                        inverse = options.inverse()](Backward& b) {
    const auto back = RotaryOptions().layout(layout).features(rotated).head_size(head).offset(offset).inverse(!inverse);
    b.give(0, rotary(b.dy(), b.x(1), b.has_saved(0) ? RotaryOptions(back).positions(b.saved(0)) : back));
  };
  const std::int64_t interleaved = options.layout() == RotaryLayout::interleaved;
  return record({op,
                 {{"interleaved", interleaved},
                  {"features", rotated},
                  {"head_size", head},
                  {"offset", options.offset()},
                  {"inverse", options.inverse()},
                  {"positions", options.positions()}}},
                {x, table}, std::move(y), keep::input(1) | keep::saved(options.positions()), adjoint);
}

}  // namespace fit
