#include "attention/masked_matmul.hpp"

#include <algorithm>
#include <cmath>

#include "attention/plan.hpp"
#include "fit/threads/parallel.hpp"
#include "tensor/dispatch.hpp"

namespace fit::detail {
namespace {

// The product of all pairs, without a node of the graph.
Tensor unrecorded_matmul(const Tensor& a, Transpose transpose_a, const Tensor& b, Transpose transpose_b) {
  const NoGrad no_grad;
  return matmul(a, transpose_a, b, transpose_b);
}

// Computes those heads of c = s y or s' y again, pair by pair, that are not finite. A finite result had only finite
// operands.
template <class T>
void repair_heads(Tensor& c, const Tensor& s, bool transposed, const Tensor& y, const Tensor& attends) {
  const std::int64_t H = s.size(1), Sq = s.size(2), Sk = s.size(3), D = y.size(3), size = c.size(2) * D;
  const kernels::HeadView<const bool> pairs = view_scores(attends.data<bool>().data(), attends);
  T* const pc = c.fresh<T>();
  const T *const ps = s.data<T>().data(), *const py = y.data<T>().data();
  parallel_for(s.size(0) * H, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      T* const to = pc + head * size;
      if (std::all_of(to, to + size, [](T x) { return std::isfinite(x); })) continue;
      std::fill_n(to, size, T{0});
      for (std::int64_t i = 0; i < Sq; ++i)
        for (std::int64_t j = 0; j < Sk; ++j) {
          if (!pairs.at(head / H, head % H, i)[j]) continue;
          const T weight = ps[(head * Sq + i) * Sk + j];
          const T* const from = py + (head * y.size(2) + (transposed ? i : j)) * D;
          for (std::int64_t d = 0; d < D; ++d) to[(transposed ? j : i) * D + d] += weight * from[d];
        }
    }
  });
}

}  // namespace

Tensor masked_qk(const Tensor& x, const Tensor& y, const Tensor& attends) {
  if (!attends.defined()) return matmul(x, Transpose::no, y, Transpose::yes);
  Tensor s = unrecorded_matmul(x, Transpose::no, y, Transpose::yes);  // a pair reads only its own query and key
  return record("masked_qk", {x, y}, std::move(s), keep::inputs | keep::saved(attends), [](Backward& g) {
    if (g.wants(0)) g.give(0, masked_pv(g.dy(), Transpose::no, g.x(1), g.saved(0)));
    if (g.wants(1)) g.give(1, masked_pv(g.dy(), Transpose::yes, g.x(0), g.saved(0)));
  });
}

Tensor masked_pv(const Tensor& s, Transpose transposed, const Tensor& y, const Tensor& attends) {
  if (!attends.defined()) return matmul(s, transposed, y, Transpose::no);
  const bool t = transposed == Transpose::yes;
  Tensor c = unrecorded_matmul(s, transposed, y, Transpose::no);
  dispatch_compute_floating(c.dtype(), [&](auto zero) { repair_heads<decltype(zero)>(c, s, t, y, attends); });
  return record("masked_pv", {s, y}, std::move(c), keep::inputs | keep::saved(attends), [t](Backward& g) {
    if (g.wants(0)) g.give(0, t ? masked_qk(g.x(1), g.dy(), g.saved(0)) : masked_qk(g.dy(), g.x(1), g.saved(0)));
    if (g.wants(1)) g.give(1, masked_pv(g.x(0), t ? Transpose::no : Transpose::yes, g.dy(), g.saved(0)));
  });
}

}  // namespace fit::detail
