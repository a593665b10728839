#include "kernels/add.hpp"

#include <algorithm>

#include "fit/threads/parallel.hpp"
#include "kernels/elementwise.hpp"

namespace fit::kernels {
namespace {

template <class T>
void add_run(T* y, std::int64_t sy, const T* x, std::int64_t sx, std::int64_t n) {
  if (sy == 1 && sx == 1 && n >= 16) return elementwise<T>().add(y, y, x, n, 1, 1);
  for (std::int64_t i = 0; i < n; ++i) y[sy * i] += x[sx * i];
}

}  // namespace

template <class T>
void add(const Shape& sizes, T* y, const Strides& sy, const T* x, const Strides& sx) {
  if (sizes.numel() == 0) return;
  StridesOf<2> strides{};
  for (int a = 0; a < sizes.rank(); ++a) strides[a] = {sy[a], sx[a]};
  const StridedLoop<2> plan(sizes, strides);
  constexpr std::int64_t grain = (1 << 17) / sizeof(T);  // about ten microseconds of memory traffic
  const std::int64_t inner = plan.inner(), step_y = plan.inner_stride(0), step_x = plan.inner_stride(1);
  if (plan.rows() == 1)
    return parallel_for(inner, grain, [&](std::int64_t i, std::int64_t end) {
      add_run(y + step_y * i, step_y, x + step_x * i, step_x, end - i);
    });
  parallel_for(plan.rows(), std::max<std::int64_t>(1, grain / inner), [&](std::int64_t begin, std::int64_t end) {
    plan.each_row(begin, end,
                  [&](std::int64_t, const std::int64_t* at) { add_run(y + at[0], step_y, x + at[1], step_x, inner); });
  });
}

template void add(const Shape&, float*, const Strides&, const float*, const Strides&);
template void add(const Shape&, double*, const Strides&, const double*, const Strides&);

}  // namespace fit::kernels
