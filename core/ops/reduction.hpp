#pragma once
#include <algorithm>
#include <cstdint>

#include "fit/batch_invariant.hpp"
#include "fit/ops.hpp"
#include "fit/parallel.hpp"
#include "kernels/convert.hpp"
#include "kernels/reduce.hpp"
#include "tensor/convert.hpp"

// Shared by all reductions: the reduced axes, their memory layout, and the split of the work into pieces.
namespace fit {

/// The axes of x, divided into kept and reduced ones. Adjacent axes of one kind are joined, to make the innermost loop
/// long; axes of size 1 are dropped.
class Reduction {
 public:
  /// Checks the axes; errors name `op`.
  Reduction(const char* op, const Tensor& x, const Axes& axes);
  /// Reduces the axes that are 1 in `kept`, a shape of x's rank.
  Reduction(const Tensor& x, const Shape& kept);

  /// Shape of the result.
  const Shape& shape(KeepDims keep) const { return keep == KeepDims::yes ? kept_shape_ : result_shape_; }
  std::int64_t outputs() const { return result_shape_.numel(); }
  /// The number of elements in each output.
  std::int64_t count() const { return count_; }

  /// Folds x into `outputs()` accumulators. `kernel(acc, x, first, kept, ks, reduced, rs)` folds a block (see
  /// kernels::Fold) into the accumulators of outputs first, first + 1 …; `combine(a, b)` joins two accumulators;
  /// `finish(i, acc)` receives the result of output i, on any thread. With few outputs and many reduced elements, the
  /// reduced axes are split into pieces and joined in order. The pieces depend on the shape only, so the result does
  /// not depend on the number of threads. In the mode BatchInvariant they depend on the reduced axes only.
  template <class Acc, class T, class Kernel, class Combine, class Finish>
  void fold(const T* x, Acc identity, const Kernel& kernel, const Combine& combine, const Finish& finish) const;

 private:
  struct Loop {
    std::int64_t size, stride;
  };
  struct Loops {
    int rank = 0;
    Loop at[Shape::max_rank];
    Loop inner() const { return rank ? at[rank - 1] : Loop{1, 0}; }
    // The offset for index `i` of the loops outside the innermost one.
    std::int64_t outer_offset(std::int64_t i) const {
      std::int64_t offset = 0;
      for (int a = rank - 2; a >= 0; --a) {
        offset += i % at[a].size * at[a].stride;
        i /= at[a].size;
      }
      return offset;
    }
  };
  // Calls body(output, offset into x, kept, reduced) for the blocks of outputs first … last - 1 and reduced elements
  // from … to - 1.
  template <class Body>
  void each_block(std::int64_t first, std::int64_t last, std::int64_t from, std::int64_t to, const Body& body) const {
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

  void plan(const Shape& shape, const bool (&goes)[Shape::max_rank]);

  Loops kept_, reduced_;
  std::int64_t count_ = 1;
  Shape kept_shape_, result_shape_;
};

template <class Acc, class T, class Kernel, class Combine, class Finish>
void Reduction::fold(const T* x, Acc identity, const Kernel& kernel, const Combine& combine,
                     const Finish& finish) const {
  constexpr std::int64_t max_accumulators = 512;  // accumulators at once: they fit in the L1 cache
  constexpr std::int64_t work = 1 << 15;          // minimum of elements for a thread
  constexpr std::int64_t max_tasks = 64;          // more pieces of the reduced axes gain nothing
  const std::int64_t n = outputs(), ks = kept_.inner().stride, rs = reduced_.inner().stride;
  const std::int64_t chunk =
      rs == 1 ? std::clamp<std::int64_t>(work / std::max<std::int64_t>(count_, 1), 1, max_accumulators)
              : max_accumulators;
  const std::int64_t chunks = (n + chunk - 1) / chunk;
  std::int64_t length = count_;
  if (batch_invariant()) {
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
                                kernel(acc + (i - first), x + at, i, kept, ks, reduced, rs);
                              });
                   if (pieces == 1)
                     for (std::int64_t i = first; i < last; ++i) finish(i, acc[i - first]);
                 }
               });
  if (pieces == 1) return;
  for (std::int64_t p = 1; p < pieces; ++p)
    for (std::int64_t i = 0; i < n; ++i) sums[i] = combine(sums[i], sums[p * n + i]);
  for (std::int64_t i = 0; i < n; ++i) finish(i, sums[i]);
}

/// Makes acc = f(acc, x) a kernel for fold(), without vectors.
template <class T, class Acc, class F>
auto plain_fold(const F& f) {
  return [f](Acc* acc, const T* x, std::int64_t, std::int64_t kept, std::int64_t ks, std::int64_t reduced,
             std::int64_t rs) {
    if (rs == 1) {
      for (std::int64_t k = 0; k < kept; ++k)
        for (std::int64_t r = 0; r < reduced; ++r) acc[k] = f(acc[k], x[k * ks + r]);
    } else {
      for (std::int64_t r = 0; r < reduced; ++r)
        for (std::int64_t k = 0; k < kept; ++k) acc[k] = f(acc[k], x[k + r * rs]);
    }
  };
}

/// Calls a float kernel on blocks of BFloat16, converted in parts: some rows, or a part of one row.
inline void fold_bfloat16(kernels::Fold<float> kernel, double* acc, const BFloat16* x, const double* centre,
                          std::int64_t kept, std::int64_t ks, std::int64_t reduced, std::int64_t rs) {
  constexpr std::int64_t capacity = 4096;
  float part[capacity];
  const bool rows = rs == 1;  // otherwise columns: reduced elements are rs apart
  const std::int64_t length = rows ? reduced : kept, count = rows ? kept : reduced, step = rows ? ks : rs;
  for (std::int64_t j = 0, n; j < length; j += n) {
    n = std::min(capacity, length - j);
    for (std::int64_t i = 0, m; i < count; i += m) {
      m = std::min(rows ? capacity / n : capacity / n / 4 * 4, count - i);  // columns: whole groups of the kernel
      for (std::int64_t k = 0; k < m; ++k) kernels::widen(part + k * n, x + (i + k) * step + j, n);
      const std::int64_t first = rows ? i : j;  // output
      const double* const c = centre ? centre + first : nullptr;
      rows ? kernel(acc + first, part, c, m, n, n, 1) : kernel(acc + first, part, c, n, 1, m, n);
    }
  }
}

/// fold() for floating types with a vector kernel. `centre` (one number for each output) may be null.
template <class T, class Combine, class Finish>
void fold_floating(const Reduction& r, const Tensor& x, double identity, kernels::Fold<AccT<T>> kernel,
                   const double* centre, const Combine& combine, const Finish& finish) {
  r.fold(
      x.data<T>().data(), identity,
      [=](double* acc, const T* at, std::int64_t first, auto... block) {
        const double* const c = centre ? centre + first : nullptr;
        if constexpr (std::is_same_v<T, BFloat16>)
          fold_bfloat16(kernel, acc, at, c, block...);
        else
          kernel(acc, at, c, block...);
      },
      combine, finish);
}

/// The larger or the smaller number; NaN wins.
constexpr auto larger = [](auto a, auto b) { return b > a || b != b ? b : a; };
constexpr auto smaller = [](auto a, auto b) { return b < a || b != b ? b : a; };

/// The gradient of a sum: dy, reshaped to `kept` if its reduced axes are missing, broadcast to `shape`.
Tensor expand_grad(const Tensor& dy, const Shape& kept, const Shape& shape);

}  // namespace fit
