#include "kernels/gather.hpp"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "fit/threads/parallel.hpp"
#include "kernels/copy.hpp"
#include "kernels/elementwise.hpp"

namespace fit::kernels {
namespace {

constexpr std::int64_t grain_elements = 1 << 14;  // scattered in memory, so each costs more than in a contiguous pass
std::int64_t grain_of(std::int64_t elements_each) {
  return std::max<std::int64_t>(1, grain_elements / std::max<std::int64_t>(1, elements_each));
}

template <class T>
void add_run(T* y, const T* x, std::int64_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    if (n >= 16) return elementwise<T>().add(y, y, x, n, 1, 1);
  }
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(y[i] + x[i]);
}

// gather_run: y[i] = x[step i + along ids[i]]. scatter_run: y[step i + along ids[i]] = join(that, x[i]).
template <class W>
void gather_run(W* y, const W* x, const std::int64_t* ids, std::int64_t n, std::int64_t step, std::int64_t along) {
  if (step == 0 && along == 1) return FIT_KERNELS(gather_table, W).line(y, x, ids, n);
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[step * i + along * ids[i]];
}
template <class T, class Join>
void scatter_run(T* y, const T* x, const std::int64_t* ids, std::int64_t n, std::int64_t step, std::int64_t along,
                 const Join& join) {
  for (std::int64_t i = 0; i < n; ++i) {
    T& at = y[step * i + along * ids[i]];
    at = static_cast<T>(join(at, x[i]));
  }
}

// Prefetches a slice of x in order, before ids access it at random. Only if the slice fits in the L1 cache, and there
// are at least as many ids as cache lines.
template <class W>
void prefetch_line(const W* x, std::int64_t n, std::int64_t ids) {
  constexpr std::int64_t piece = 64 / sizeof(W), nearest = 32768 / sizeof(W);
  if (n > nearest || n > ids * piece) return;
  for (std::int64_t i = 0; i < n; i += piece) __builtin_prefetch(x + i);
}

// Loops over the rows of ids of `shape`. `at` is the row's offset in the other array, without the ids' part; `step` is
// the distance there between neighbours of a row.
StridedLoop<2> walk_along(const Shape& shape, const Shape& other, int axis) {
  const Strides ids = row_major(shape), full = row_major(other);
  StridesOf<2> strides{};
  for (int a = 0; a < shape.rank(); ++a) strides[a] = {ids[a], a == axis ? 0 : full[a]};
  return StridedLoop<2>(shape, strides);
}

// y[o, ids[o, i, k], k] = join(that, x[o, i, k]).
template <class T, class Join>
void scatter(T* y, const T* x, const std::int64_t* ids, const Shape& shape, const Shape& y_shape, int axis,
             const Join& join) {
  if (shape.numel() == 0) return;
  // The threads divide the axes before `axis`: their pieces are separate in y, too.
  const AxisView own(shape, axis), result(y_shape, axis);
  const Shape inner(shape.begin() + axis, shape.rank() - axis), inner_y(y_shape.begin() + axis, shape.rank() - axis);
  const StridedLoop<2> plan = walk_along(inner, inner_y, 0);
  const Shape outer(shape.begin(), axis), outer_y(y_shape.begin(), axis);
  const std::int64_t along = result.inner, step = plan.inner_stride(1);
  parallel_for(own.outer, grain_of(inner.numel()), [&](std::int64_t o, std::int64_t end) {
    for (; o < end; ++o) {
      std::int64_t rest = o, place = 0, stride = 1;  // offset of this piece in y; y may be larger along the other axes
      for (int a = axis - 1; a >= 0; --a) {
        place += rest % outer[a] * stride;
        rest /= outer[a];
        stride *= outer_y[a];
      }
      T* const to = y + place * inner_y.numel();
      const T* const from = x + o * inner.numel();
      const std::int64_t* const id = ids + o * inner.numel();
      plan.each_row(0, plan.rows(), [&](std::int64_t, const std::int64_t* at) {
        scatter_run(to + at[1], from + at[0], id + at[0], plan.inner(), step, along, join);
      });
    }
  });
}

}  // namespace

void gather_rows(void* y, const void* x, const std::int64_t* ids, std::int64_t count, const AxisView& a,
                 std::int64_t element_size, std::int64_t skip) {
  with_word(element_size, [&](auto word) {
    using W = decltype(word);
    W* const to = static_cast<W*>(y);
    const W* const from = static_cast<const W*>(x);
    const bool elements = a.inner == 1 && skip < 0;
    parallel_for(a.outer * count, grain_of(a.inner), [&](std::int64_t row, std::int64_t end) {
      for (std::int64_t n; row < end; row += n) {  // the next n rows, from one piece of x
        const std::int64_t* const id = ids + row % count;
        const W* const piece = from + row / count * a.n * a.inner;
        W* const out = to + row * a.inner;
        n = std::min(count - row % count, end - row);
        if (elements)
          gather_run(out, piece, id, n, 0, 1);
        else
          for (std::int64_t i = 0; i < n; ++i)
            id[i] == skip ? std::fill_n(out + i * a.inner, a.inner, W{})
                          : std::copy_n(piece + id[i] * a.inner, a.inner, out + i * a.inner);
      }
    });
  });
}

template <class T>
void scatter_rows_add(T* y, const T* x, const std::int64_t* ids, std::int64_t count, const AxisView& a,
                      std::int64_t skip) {
  // Each thread has some of the columns, and goes through all ids in order.
  constexpr std::int64_t width = 128;
  const std::int64_t blocks = (a.inner + width - 1) / width;
  parallel_for(a.outer * blocks, grain_of(count * std::min(width, a.inner)), [&](std::int64_t unit, std::int64_t end) {
    for (; unit < end; ++unit) {
      const std::int64_t o = unit / blocks, column = unit % blocks * width, n = std::min(width, a.inner - column);
      for (std::int64_t i = 0; i < count; ++i)
        if (ids[i] != skip)
          add_run(y + (o * a.n + ids[i]) * a.inner + column, x + (o * count + i) * a.inner + column, n);
    }
  });
}

bool gather(void* y, const void* x, const std::int64_t* ids, const Shape& shape, const Shape& x_shape, int axis,
            std::int64_t element_size) {
  if (shape.numel() == 0) return true;
  const StridedLoop<2> plan = walk_along(shape, x_shape, axis);
  const std::int64_t along = row_major(x_shape)[axis], step = plan.inner_stride(1), last = x_shape[axis] - 1;
  constexpr std::int64_t part = 1024;  // ids are checked, then read again from the cache
  std::atomic<bool> within{true};
  with_word(element_size, [&](auto word) {
    using W = decltype(word);
    W* const to = static_cast<W*>(y);
    const W* const from = static_cast<const W*>(x);
    parallel_for(plan.rows(), grain_of(plan.inner()), [&](std::int64_t begin, std::int64_t end) {
      plan.each_row(begin, end, [&](std::int64_t, const std::int64_t* at) {
        if (step == 0 && along == 1) prefetch_line(from + at[1], last + 1, plan.inner());
        for (std::int64_t i = 0; i < plan.inner(); i += part) {
          const std::int64_t n = std::min(part, plan.inner() - i);
          const std::int64_t* const id = ids + at[0] + i;
          if (all_within(id, n, 0, last))
            gather_run(to + at[0] + i, from + at[1] + step * i, id, n, step, along);
          else
            within = false;
        }
      });
    });
  });
  return within;
}

template <class T>
void scatter_add(T* y, const T* x, const std::int64_t* ids, const Shape& shape, const Shape& y_shape, int axis) {
  scatter(y, x, ids, shape, y_shape, axis, [](T a, T b) { return a + b; });
}
template <class T>
void scatter_max(T* y, const T* x, const std::int64_t* ids, const Shape& shape, const Shape& y_shape, int axis) {
  scatter(y, x, ids, shape, y_shape, axis, [](T a, T b) { return a >= b || a != a ? a : b; });
}
template <class T>
void scatter_min(T* y, const T* x, const std::int64_t* ids, const Shape& shape, const Shape& y_shape, int axis) {
  scatter(y, x, ids, shape, y_shape, axis, [](T a, T b) { return a <= b || a != a ? a : b; });
}

#define FIT_SCATTER(T)                                                                                               \
  template void scatter_rows_add<T>(T*, const T*, const std::int64_t*, std::int64_t, const AxisView&, std::int64_t); \
  template void scatter_add<T>(T*, const T*, const std::int64_t*, const Shape&, const Shape&, int);                  \
  template void scatter_max<T>(T*, const T*, const std::int64_t*, const Shape&, const Shape&, int);                  \
  template void scatter_min<T>(T*, const T*, const std::int64_t*, const Shape&, const Shape&, int);
FIT_SCATTER(std::int64_t)
FIT_SCATTER(float)
FIT_SCATTER(double)
#undef FIT_SCATTER

}  // namespace fit::kernels
