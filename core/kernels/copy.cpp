#include "kernels/copy.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fit/threads/parallel.hpp"

namespace fit::kernels {
namespace {

constexpr std::int64_t grain_bytes = 1 << 17;  // about ten microseconds of memory traffic

template <class W>
void copy_run(W* y, std::int64_t sy, const W* x, std::int64_t sx, std::int64_t n) {
  if (sy == 1 && sx == 1)
    std::memcpy(y, x, static_cast<std::size_t>(n) * sizeof(W));
  else if (sy == 1 && sx == 0)
    std::fill_n(y, n, W(*x));  // a copy: y may alias x
  else
    FIT_KERNELS(copy_table, W).strided(y, sy, x, sx, n);
}

// Copies as many 2-D transpositions: y is contiguous along the innermost axis, x along axis `a`. Tiles of y are [h, w].
template <class W>
void copy_transposed(const StridedLoop<2>& plan, int a, W* y, const W* x) {
  const std::int64_t n = plan.size[a], m = plan.inner();
  const std::int64_t step_y = plan.stride[a][0], step_x = plan.inner_stride(1);
  constexpr std::int64_t side = 64, words = grain_bytes / static_cast<std::int64_t>(sizeof(W));
  const std::int64_t w = std::min(m, transposed_tile / std::min(n, side)), h = std::min(n, transposed_tile / w);
  const std::int64_t grain = std::max<std::int64_t>(1, words / (w * h));
  const std::int64_t tiles_n = (n + h - 1) / h, tiles_m = (m + w - 1) / w;
  const auto& kernels = FIT_KERNELS(copy_table, W);
  parallel_for(plan.rows() / n * tiles_n * tiles_m, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t i = tile % tiles_m * w, j = tile / tiles_m % tiles_n * h;
      std::int64_t rest = tile / tiles_m / tiles_n, at_y = step_y * j + i, at_x = step_x * i + j;
      for (int b = plan.rank - 2; b >= 0; --b) {
        if (b == a) continue;
        at_y += rest % plan.size[b] * plan.stride[b][0];
        at_x += rest % plan.size[b] * plan.stride[b][1];
        rest /= plan.size[b];
      }
      kernels.transpose(std::min(w, m - i), std::min(h, n - j), x + at_x, step_x, y + at_y, step_y);
    }
  });
}

// Copies `rows` rows of N words, sx (1, 0 or -1) apart in x: a row is a few moves, without a call.
template <class W, int sx, int N>
void copy_short_rows(W* y, std::int64_t step_y, const W* x, std::int64_t step_x, std::int64_t rows) {
  for (; rows > 0; --rows, y += step_y, x += step_x) {
    if constexpr (sx == 1)
      std::memcpy(y, x, N * sizeof(W));
    else
      for (int i = 0; i < N; ++i) y[i] = x[sx * i];
  }
}

// The function for rows of n words; null if they are not short.
template <class W, int sx, int... N>
auto short_rows_of(std::int64_t n, std::integer_sequence<int, N...>) {
  static constexpr decltype(&copy_short_rows<W, 1, 1>) by_size[] = {copy_short_rows<W, sx, N + 1>...};
  return n <= static_cast<std::int64_t>(sizeof...(N)) ? by_size[n - 1] : nullptr;
}
template <class W>
auto short_rows_of(std::int64_t n, std::int64_t sx) {
  constexpr std::make_integer_sequence<int, 16> sizes;
  return sx == 1   ? short_rows_of<W, 1>(n, sizes)
         : sx == 0 ? short_rows_of<W, 0>(n, sizes)
                   : short_rows_of<W, -1>(n, sizes);
}

template <class W>
void copy_words(const StridedLoop<2>& plan, W* y, const W* x) {
  const std::int64_t inner = plan.inner(), sy = plan.inner_stride(0), sx = plan.inner_stride(1);
  if (sy == 1 && sx != 0 && sx != 1)
    for (int a = plan.rank - 2; a >= 0; --a)
      if (plan.stride[a][1] == 1) return copy_transposed(plan, a, y, x);
  constexpr std::int64_t grain = grain_bytes / static_cast<std::int64_t>(sizeof(W));
  const std::int64_t rows = plan.rows();
  if (rows == 1)
    return parallel_for(inner, grain,
                        [&](std::int64_t i, std::int64_t end) { copy_run(y + sy * i, sy, x + sx * i, sx, end - i); });
  const auto copy_short = sy == 1 && -1 <= sx && sx <= 1 ? short_rows_of<W>(inner, sx) : nullptr;
  StridedLoop<2> blocks = plan;  // of rows: `size` neighbours along the last axis but one
  --blocks.rank;
  const std::int64_t size = blocks.inner(), step_y = blocks.inner_stride(0), step_x = blocks.inner_stride(1);
  parallel_for(rows, std::max<std::int64_t>(1, grain / inner), [&](std::int64_t begin, std::int64_t end) {
    if (copy_short)
      return blocks.each_row(begin / size, (end + size - 1) / size, [&](std::int64_t block, const std::int64_t* at) {
        const std::int64_t from = std::max(begin - block * size, std::int64_t{0}),
                           to = std::min(end - block * size, size);
        copy_short(y + at[0] + step_y * from, step_y, x + at[1] + step_x * from, step_x, to - from);
      });
    plan.each_row(begin, end,
                  [&](std::int64_t, const std::int64_t* at) { copy_run(y + at[0], sy, x + at[1], sx, inner); });
  });
}

}  // namespace

Strides row_major(const Shape& shape) {
  Strides s{};
  std::int64_t step = 1;
  for (int a = shape.rank() - 1; a >= 0; --a) {
    s[a] = step;
    step *= shape[a];
  }
  return s;
}

void copy(const Shape& sizes, std::int64_t element_size, void* y, const Strides& sy, const void* x, const Strides& sx) {
  if (sizes.numel() == 0) return;
  StridesOf<2> strides{};
  for (int a = 0; a < sizes.rank(); ++a) strides[a] = {sy[a], sx[a]};
  const StridedLoop<2> plan(sizes, strides);
  with_word(element_size, [&](auto word) {
    using W = decltype(word);
    copy_words(plan, static_cast<W*>(y), static_cast<const W*>(x));
  });
}

void zero(void* y, std::int64_t bytes) {
  parallel_for(bytes, grain_bytes, [&](std::int64_t i, std::int64_t end) {
    std::memset(static_cast<Byte*>(y) + i, 0, static_cast<std::size_t>(end - i));
  });
}

void copy(void* y, const void* x, std::int64_t bytes) {
  parallel_for(bytes, grain_bytes, [&](std::int64_t i, std::int64_t end) {
    std::memcpy(static_cast<Byte*>(y) + i, static_cast<const Byte*>(x) + i, static_cast<std::size_t>(end - i));
  });
}

}  // namespace fit::kernels
