#include "ops/reduce/slice_scale.hpp"

#include <vector>

#include "tensor/dispatch.hpp"

namespace fit {

Axes reduced_axes(const Shape& kept) {
  std::vector<int> axes;
  for (int a = 0; a < kept.rank(); ++a)
    if (kept[a] == 1) axes.push_back(a);
  return axes;
}

Tensor slice_scale(const Tensor& x, const Shape& kept, const Tensor& size) {
  const NoGrad no_grad;
  Tensor scales;
  dispatch_compute_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Tensor converted = size.to(float64);
    const auto sizes = converted.data<double>();
    if (x.numel() == 0 || std::all_of(sizes.begin(), sizes.end(), squares_fit<T>)) return;
    const Tensor largest = amax(abs(x.detach()), reduced_axes(kept), keepdims);
    const auto top = largest.data<T>();
    Tensor s = Tensor::empty(kept, x.dtype());
    T* const out = s.fresh<T>();
    bool any = false;
    for (std::int64_t i = 0; i < top.size(); ++i) {
      out[i] = squares_fit<T>(sizes[i]) ? T{1} : scale_of<T>(top[i]);
      any |= out[i] != 1;
    }
    if (any) scales = s;
  });
  return scales;
}

}  // namespace fit
