#include <algorithm>

#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/rows/rows_softmax.hpp"
#include "kernels/wide_row.hpp"
#include "ops/common/precision.hpp"
#include "ops/network/softmax.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

/// Calls body(first row, end) in parallel.
template <class Body>
void each_rows(const Tensor& logits, const Body& body) {
  constexpr std::int64_t work = 1 << 13;  // minimum of elements for a thread
  parallel_for(logits.size(0), std::max<std::int64_t>(1, work / std::max<std::int64_t>(logits.size(1), 1)), body);
}
/// Calls body(row) in parallel.
template <class Body>
void each_row(const Tensor& logits, const Body& body) {
  each_rows(logits, [&](std::int64_t r, std::int64_t end) {
    for (; r < end; ++r) body(r);
  });
}

/// dlogits = (softmax(logits) - one_hot(targets)) dy for each row, in one pass. Overwrites the logits if no other
/// tensor shares them. `stats` [2, N] holds each row's max and the rest of its sum of e^(x - max): without the 1 of one
/// maximum. If the target is a maximum, softmax - 1 is -rest / (1 + rest).
Tensor fused_gradient(const Tensor& logits, const Tensor& targets, const Tensor& stats, const Tensor& dy,
                      std::int64_t ignore_index) {
  Tensor dx = logits.unique() ? logits : Tensor::empty(logits.shape(), logits.dtype());
  const std::int64_t rows = logits.size(0), n = logits.size(1);
  const std::int64_t* const target = targets.data<std::int64_t>().data();
  const Tensor wide_dy = to_float32(dy);
  dispatch_floating(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = AccT<T>;
    const auto exps = kernels::softmax_rows<W>().scaled_exp;
    T* const to = dx.fresh<T>();
    const T* const x = logits.data<T>().data();
    const W *const max = stats.data<W>().data(), *const g = wide_dy.data<W>().data();
    const bool nontemporal = !narrow<T> && to != x && kernels::stores_nontemporal(to, rows, n);
    each_row(logits, [&](std::int64_t r) {
      if (target[r] == ignore_index) {
        std::fill_n(to + r * n, n, T(0));
        return;
      }
      kernels::WideRow<T> wide(n);
      const W* const row = wide.read(x + r * n, n);
      W* const out = wide.target(to + r * n);
      const W rest = max[rows + r], sum = 1 + rest;
      const bool is_max = row[target[r]] == max[r];  // before `out` overwrites the row
      exps(out, row, n, max[r], g[r] / sum, nontemporal);
      W& of_target = out[target[r]];
      of_target = is_max ? -g[r] * (rest / sum) : of_target - g[r];
      wide.store(to + r * n, n);
    });
  });
  return dx;
}

/// Decomposition into operations, for higher derivatives.
Tensor gradient_by_decomposition(const Tensor& logits, const Tensor& targets, const Tensor& dy,
                                 std::int64_t ignore_index) {
  return with_precision(Precision::rounded, {logits}, [&](const Tensor& logits) {
    const Tensor ignored = eq(targets, ignore_index);
    const Tensor hot = one_hot(masked_fill(targets, ignored, 0), logits.size(1), logits.dtype());
    const Tensor shown = masked_fill(logits, unsqueeze(ignored, 1), 0);
    return detail::log_softmax_backward(log_softmax(shown), -hot * unsqueeze(masked_fill(dy, ignored, 0), 1), 1);
  });
}

}  // namespace

Tensor cross_entropy_rows(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index) {
  constexpr const char* op = "cross_entropy_rows";
  check::floating(op, "logits", logits);
  check::dtype(op, "targets", targets, int64);
  if (logits.rank() != 2) check::fail(op, "logits has shape ", logits.shape(), ": it must be [N, C]");
  const std::int64_t rows = logits.size(0), n = logits.size(1);
  check::shape(op, "targets", targets, {rows});
  const std::int64_t* const target = targets.data<std::int64_t>().data();
  for (std::int64_t r = 0; r < rows; ++r)
    if (target[r] != ignore_index && (target[r] < 0 || target[r] >= n))
      check::fail(op, "targets[", r, "] is ", target[r], ": it must be in 0 … ", n - 1, ", or ignore_index (",
                  ignore_index, ")");
  const DType acc = acc_dtype(logits.dtype());
  Tensor y = Tensor::empty({rows}, acc), stats = Tensor::empty({2, rows}, acc);
  dispatch_floating(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = AccT<T>;
    const auto& kernels = kernels::softmax_rows<W>();
    const T* const x = logits.data<T>().data();
    W *const loss = y.fresh<W>(), *const max = stats.fresh<W>(), *const rest = max + rows;
    each_rows(logits, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t r = first; r < end; ++r) {
        if (target[r] == ignore_index) {
          loss[r] = max[r] = rest[r] = 0;
          continue;
        }
        kernels::WideRow<T> wide(n);
        const W* const row = wide.read(x + r * n, n);
        kernels.max_and_rest(row, n, max[r], rest[r]);
        loss[r] = max[r] - row[target[r]];
      }
      kernels.add_log1p(loss + first, rest + first, end - first);
    });
  });
  y = y.to(result_dtype(Precision::native_or_float32, logits.dtype()));
  return record(op, {logits, targets}, std::move(y), keep::inputs | keep::saved(stats), [ignore_index](Backward& b) {
    b.give(0, b.recording() ? gradient_by_decomposition(b.x(0), b.x(1), b.dy(), ignore_index)
                            : fused_gradient(b.take_x(0), b.x(1), b.saved(0), b.dy(), ignore_index));
  });
}

}  // namespace fit
