#pragma once
#include <cstdint>

#include "kernels/axis_view.hpp"
#include "kernels/copy.hpp"
#include "kernels/simd/isa.hpp"
#include "kernels/strided_loop.hpp"

// Gather and scatter by lists of ids. The caller has checked the ids, except for gather(). Only one thread writes each
// element, and adds in the order of the list: results have the bits of simple loops.
namespace fit::kernels {

/// Single-threaded parts, compiled for each instruction set. W: a word of with_word().
template <class W>
struct GatherKernels {
  /// y[i] = x[ids[i]] for i < n.
  void (*line)(W* y, const W* x, const std::int64_t* ids, std::int64_t n);
  /// Whether n ids are all in low … last.
  bool (*within)(const std::int64_t* ids, std::int64_t n, std::int64_t low, std::int64_t last);
};
template <class IsaTag, class W>
const GatherKernels<W>& gather_table();

inline bool all_within(const std::int64_t* ids, std::int64_t n, std::int64_t low, std::int64_t last) {
  return FIT_KERNELS(gather_table, Word8).within(ids, n, low, last);
}

/// y[o, i, :] = x[o, ids[i], :] for i < count, or 0 where ids[i] is `skip`. x is [a.outer, a.n, a.inner], y [a.outer,
/// count, a.inner].
void gather_rows(void* y, const void* x, const std::int64_t* ids, std::int64_t count, const AxisView& a,
                 std::int64_t element_size, std::int64_t skip);

/// y[o, ids[i], :] += x[o, i, :] for i < count, except where ids[i] is `skip`. y is [a.outer, a.n, a.inner].
template <class T>
void scatter_rows_add(T* y, const T* x, const std::int64_t* ids, std::int64_t count, const AxisView& a,
                      std::int64_t skip);

/// y[o, i, k] = x[o, ids[o, i, k], k]; o and k are the axes before and after `axis`. ids and y have shape `shape`, x
/// has `x_shape`. Returns false if an id is out of range; nothing is read there.
bool gather(void* y, const void* x, const std::int64_t* ids, const Shape& shape, const Shape& x_shape, int axis,
            std::int64_t element_size);

/// y[o, ids[o, i, k], k] += x[o, i, k].
template <class T>
void scatter_add(T* y, const T* x, const std::int64_t* ids, const Shape& shape, const Shape& y_shape, int axis);

/// Same with the larger or the smaller of the two instead of the sum. NaN wins.
template <class T>
void scatter_max(T* y, const T* x, const std::int64_t* ids, const Shape& shape, const Shape& y_shape, int axis);
template <class T>
void scatter_min(T* y, const T* x, const std::int64_t* ids, const Shape& shape, const Shape& y_shape, int axis);

}  // namespace fit::kernels
