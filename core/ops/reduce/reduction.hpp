#pragma once
#include <algorithm>
#include <cstdint>

#include "fit/detail/function_ref.hpp"
#include "fit/ops/ops.hpp"
#include "kernels/rows/reduce.hpp"
#include "kernels/wide_row.hpp"
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
  /// The reduced axes, in order.
  Span<const std::int64_t> axes() const { return {axes_, axis_count_}; }
  std::int64_t outputs() const { return result_shape_.numel(); }
  /// The number of elements in each output.
  std::int64_t count() const { return count_; }

  /// The functions of a fold.
  template <class Acc>
  using Kernel = FunctionRef<void(Acc* acc, std::int64_t at, std::int64_t first, std::int64_t kept, std::int64_t ks,
                                  std::int64_t reduced, std::int64_t rs)>;
  template <class Acc>
  using Finish = FunctionRef<void(std::int64_t first, const Acc* acc, std::int64_t n)>;
  /// Folds a tensor into `outputs()` accumulators, which are double, int64 or boolean. `kernel(acc, at, first, kept,
  /// ks, reduced, rs)` folds the block at offset `at` of the tensor (see kernels::Fold) into the accumulators of
  /// outputs first, first + 1 …; `combine(a, b)` joins two accumulators; `finish(first, acc, n)` receives the results
  /// of n outputs, on any thread. With few outputs and many reduced elements, the reduced axes are split into pieces
  /// and joined in order. The pieces depend on the shape only, so the result does not depend on the number of threads.
  /// In the mode Reproducible they depend on the reduced axes only.
  template <class Acc>
  void fold(Acc identity, Kernel<Acc> kernel, FunctionRef<Acc(Acc, Acc)> combine, Finish<Acc> finish) const;

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
  void each_block(std::int64_t first, std::int64_t last, std::int64_t from, std::int64_t to, const Body& body) const;
  void plan(const Shape& shape, const bool (&goes)[Shape::max_rank]);

  Loops kept_, reduced_;
  std::int64_t count_ = 1;
  Shape kept_shape_, result_shape_;
  std::int64_t axes_[Shape::max_rank];
  int axis_count_ = 0;
};

/// Makes finish(i, acc) of one output a function for several.
template <class Acc, class Finish>
auto each_output(const Finish& finish) {
  return [&finish](std::int64_t first, const Acc* acc, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) finish(first + i, acc[i]);
  };
}

/// fold() by acc = f(acc, x), without vectors. Calls finish(i, acc) for each output.
template <class Acc, class T, class F, class Finish>
void fold_plain(const Reduction& r, const T* x, Acc identity, const F& f, FunctionRef<Acc(Acc, Acc)> combine,
                const Finish& finish) {
  r.fold<Acc>(
      identity,
      [&](Acc* acc, std::int64_t at, std::int64_t, std::int64_t kept, std::int64_t ks, std::int64_t reduced,
          std::int64_t rs) {
        const T* const from = x + at;
        if (rs == 1) {
          for (std::int64_t k = 0; k < kept; ++k)
            for (std::int64_t i = 0; i < reduced; ++i) acc[k] = f(acc[k], from[k * ks + i]);
        } else {
          for (std::int64_t i = 0; i < reduced; ++i)
            for (std::int64_t k = 0; k < kept; ++k) acc[k] = f(acc[k], from[k + i * rs]);
        }
      },
      combine, each_output<Acc>(finish));
}

/// Calls a kernel, which reads T or AccT<T>, on a block of numbers: of a narrow T in parts, some rows or a part of one
/// row, which stay in the L1 cache if they are converted for it. The results are the same for both kernels.
template <class T, class Kernel>
void fold_block(Kernel kernel, double* acc, const T* x, const double* centre, std::int64_t kept, std::int64_t ks,
                std::int64_t reduced, std::int64_t rs) {
  if constexpr (!narrow<T>) return kernel(acc, x, centre, kept, ks, reduced, rs);
  constexpr std::int64_t capacity = 4096;
  constexpr bool reads_narrow = std::is_same_v<Kernel, kernels::Fold<T>>;
  [[maybe_unused]] kernels::WideBlock<std::conditional_t<reads_narrow, AccT<T>, T>, capacity> wide;
  const bool rows = rs == 1;  // otherwise columns: reduced elements are rs apart
  const std::int64_t length = rows ? reduced : kept, count = rows ? kept : reduced, step = rows ? ks : rs;
  for (std::int64_t j = 0, n; j < length; j += n) {
    n = std::min(capacity, length - j);
    for (std::int64_t i = 0, m; i < count; i += m) {
      m = std::min(rows ? capacity / n : capacity / n / 4 * 4, count - i);        // columns: whole groups of the kernel
      const std::int64_t first = rows ? i : j, m_step = reads_narrow ? step : n;  // first: an output
      const double* const c = centre ? centre + first : nullptr;
      const auto* const part = [&] {
        if constexpr (reads_narrow)
          return x + i * step + j;
        else
          return wide.read(x + i * step + j, m, n, step);
      }();
      rows ? kernel(acc + first, part, c, m, m_step, n, 1) : kernel(acc + first, part, c, n, 1, m, m_step);
    }
  }
}

/// fold() for floating types with a vector kernel. `centre` (one number for each output) may be null. Calls
/// finish(i, acc) for each output.
template <class T, class Kernel, class Finish>
void fold_floating(const Reduction& r, const Tensor& x, double identity, Kernel kernel, const double* centre,
                   FunctionRef<double(double, double)> combine, const Finish& finish) {
  r.fold<double>(
      identity,
      [=, from = x.data<T>().data()](double* acc, std::int64_t at, std::int64_t first, auto... block) {
        fold_block<T>(kernel, acc, from + at, centre ? centre + first : nullptr, block...);
      },
      combine, each_output<double>(finish));
}

/// The larger or the smaller number; NaN wins.
constexpr auto larger = [](auto a, auto b) { return b > a || b != b ? b : a; };
constexpr auto smaller = [](auto a, auto b) { return b < a || b != b ? b : a; };

/// The result type of a sum or a product of T.
template <class T>
using Total = std::conditional_t<is_floating_element<T>, T, std::int64_t>;
inline DType total_dtype(const Tensor& x) { return is_floating(x.dtype()) ? x.dtype() : DType::int64; }

/// The gradient of a sum: dy, reshaped to `kept` if its reduced axes are missing, broadcast to `shape`.
Tensor expand_grad(const Tensor& dy, const Shape& kept, const Shape& shape);

}  // namespace fit
