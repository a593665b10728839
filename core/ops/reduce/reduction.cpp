#include "ops/reduce/reduction.hpp"

#include "fit/matmul/reproducible.hpp"
#include "fit/threads/parallel.hpp"
#include "ops/index/axis_slices.hpp"
#include "tensor/check.hpp"

namespace fit {

Reduction::Reduction(const char* op, const Tensor& x, const Axes& axes) {
  check::defined(op, "x", x);
  bool goes[Shape::max_rank] = {};
  for (int a = 0; a < x.rank(); ++a) goes[a] = axes.all();
  for (const int given : axes.list()) {
    const int a = slice_axis(op, x, given);
    if (goes[a]) check::fail(op, "axis ", given, " of shape ", x.shape(), " is given twice");
    goes[a] = true;
  }
  plan(x.shape(), goes);
}

Reduction::Reduction(const Tensor& x, const Shape& kept) {
  bool goes[Shape::max_rank] = {};
  for (int a = 0; a < x.rank(); ++a) goes[a] = kept[a] == 1;
  plan(x.shape(), goes);
}

void Reduction::plan(const Shape& shape, const bool (&goes)[Shape::max_rank]) {
  const int rank = shape.rank();
  std::int64_t kept[Shape::max_rank], result[Shape::max_rank], strides[Shape::max_rank], stride = 1;
  for (int a = rank - 1; a >= 0; --a) {
    strides[a] = stride;
    stride *= shape[a];
  }
  int result_rank = 0, last = -1;  // last: the previous axis with a size other than 1
  for (int a = 0; a < rank; ++a) {
    const std::int64_t size = shape[a];
    kept[a] = goes[a] ? 1 : size;
    if (goes[a])
      count_ *= size, axes_[axis_count_++] = a;
    else
      result[result_rank++] = size;
    if (size == 1) continue;
    Loops& loops = goes[a] ? reduced_ : kept_;
    if (last < 0 || goes[last] != goes[a]) loops.at[loops.rank++].size = 1;
    loops.at[loops.rank - 1].size *= size;
    loops.at[loops.rank - 1].stride = strides[a];
    last = a;
  }
  kept_shape_ = Shape(kept, rank);
  result_shape_ = Shape(result, result_rank);
}

template <class Body>
void Reduction::each_block(std::int64_t first, std::int64_t last, std::int64_t from, std::int64_t to,
                           const Body& body) const {
  const Loop k = kept_.inner(), r = reduced_.inner();
  for (std::int64_t i = first, n; i < last; i += n) {
    n = std::min(k.size - i % k.size, last - i);
    const std::int64_t at = kept_.outer_offset(i / k.size) + i % k.size * k.stride;
    for (std::int64_t j = from, m; j < to; j += m) {
      m = std::min(r.size - j % r.size, to - j);
      body(i, at + reduced_.outer_offset(j / r.size) + j % r.size * r.stride, n, m);
    }
  }
}

template <class Acc>
void Reduction::fold(Acc identity, Kernel<Acc> kernel, FunctionRef<Acc(Acc, Acc)> combine, Finish<Acc> finish) const {
  constexpr std::int64_t max_accumulators = 512;  // accumulators at once: they fit in the L1 cache
  constexpr std::int64_t work = 1 << 15;          // minimum of elements for a thread
  constexpr std::int64_t max_tasks = 64;          // more pieces of the reduced axes gain nothing
  const std::int64_t n = outputs(), ks = kept_.inner().stride, rs = reduced_.inner().stride;
  const std::int64_t chunk =
      rs == 1 ? std::clamp<std::int64_t>(work / std::max<std::int64_t>(count_, 1), 1, max_accumulators)
              : max_accumulators;
  const std::int64_t chunks = (n + chunk - 1) / chunk;
  std::int64_t length = count_;
  if (reproducible()) {
    length = std::min(count_, 2 * work);
  } else if (chunks > 0 && chunks < max_tasks / 4) {
    const std::int64_t min_length = std::max(count_ * chunks / max_tasks, 2 * work / std::min(n, chunk));
    const std::int64_t multiple = rs == 1 ? 1024 : 16;  // keeps the kernels' inner loops full
    length = std::min(count_, (min_length + multiple - 1) / multiple * multiple);
  }
  const std::int64_t pieces = count_ > length ? (count_ + length - 1) / length : 1;
  Tensor partial = pieces > 1 ? Tensor::empty({pieces, n}, dtype_of<Acc>()) : Tensor();
  Acc* const sums = pieces > 1 ? partial.fresh<Acc>() : nullptr;
  const std::int64_t each = std::min(n, chunk) * length;
  parallel_for(chunks * pieces, each >= work ? 1 : work / std::max<std::int64_t>(each, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 Acc local[max_accumulators];
                 for (std::int64_t task = begin; task < end; ++task) {
                   const std::int64_t first = task % chunks * chunk, last = std::min(n, first + chunk);
                   const std::int64_t piece = task / chunks;
                   Acc* const acc = pieces > 1 ? sums + piece * n + first : local;
                   std::fill_n(acc, last - first, identity);
                   each_block(first, last, piece * length, std::min(count_, (piece + 1) * length),
                              [&](std::int64_t i, std::int64_t at, std::int64_t kept, std::int64_t reduced) {
                                kernel(acc + (i - first), at, i, kept, ks, reduced, rs);
                              });
                   if (pieces == 1) finish(first, acc, last - first);
                 }
               });
  if (pieces == 1) return;
  for (std::int64_t p = 1; p < pieces; ++p)
    for (std::int64_t i = 0; i < n; ++i) sums[i] = combine(sums[i], sums[p * n + i]);
  finish(0, sums, n);
}

template void Reduction::fold(double, Kernel<double>, FunctionRef<double(double, double)>, Finish<double>) const;
template void Reduction::fold(std::int64_t, Kernel<std::int64_t>, FunctionRef<std::int64_t(std::int64_t, std::int64_t)>,
                              Finish<std::int64_t>) const;
template void Reduction::fold(bool, Kernel<bool>, FunctionRef<bool(bool, bool)>, Finish<bool>) const;

Tensor expand_grad(const Tensor& dy, const Shape& kept, const Shape& shape) {
  return broadcast_to(dy.shape() == kept ? dy : reshape(dy, kept), shape);
}

}  // namespace fit
