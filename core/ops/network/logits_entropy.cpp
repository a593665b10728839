#include "ops/network/logits_entropy.hpp"

#include <algorithm>
#include <utility>

#include "kernels/elementwise.hpp"
#include "kernels/function_list.hpp"
#include "ops/common/blocks.hpp"
#include "ops/common/composed.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

Tensor composed_entropy(const Tensor& x, const Tensor& t) {
  const Tensor of_ones = t * softplus(-x), of_zeros = (1 - t) * softplus(x);
  return of_ones + of_zeros;
}

// t f(-x) and (1 - t) f(x) of a block.
template <class T>
struct EntropyParts {
  EntropyParts(const kernels::Function& function, const T* x, const T* t, std::int64_t n) {
    const auto& kernels = kernels::elementwise<T>();
    const auto f = kernels::function<T>(function).forward;
    const T one = 1;
    kernels.neg(of_ones, x, n);
    f(of_ones, of_ones, n, one);  // the parameter of softplus
    kernels.mul(of_ones, of_ones, t, n, 1, 1);
    f(of_zeros, x, n, one);
    T rest[block_size];
    kernels.sub(rest, &one, t, n, 0, 1);
    kernels.mul(of_zeros, rest, of_zeros, n, 1, 1);
  }
  T of_ones[block_size], of_zeros[block_size];
};

template <class T>
void forward(const Tensor& x, const Tensor& t, Tensor& y) {
  each_block(x.numel(),
             [x = x.data<T>().data(), t = t.data<T>().data(), y = y.fresh<T>()](std::int64_t at, std::int64_t n) {
               const EntropyParts<T> parts(kernels::Function::softplus, x + at, t + at, n);
               kernels::elementwise<T>().add(y + at, parts.of_ones, parts.of_zeros, n, 1, 1);
             });
}

// dx = dy ((1 - t) p - t (1 - p))
template <class T>
void backward(const Tensor& x, const Tensor& t, const Tensor& dy, Tensor& dx) {
  each_block(x.numel(), [x = x.data<T>().data(), t = t.data<T>().data(), dy = dy.data<T>().data(), dx = dx.fresh<T>()](
                            std::int64_t at, std::int64_t n) {
    const auto& kernels = kernels::elementwise<T>();
    const EntropyParts<T> parts(kernels::Function::sigmoid, x + at, t + at, n);
    kernels.sub(dx + at, parts.of_zeros, parts.of_ones, n, 1, 1);
    kernels.mul(dx + at, dx + at, dy + at, n, 1, 1);
  });
}

}  // namespace

Tensor logits_entropy(const char* op, const Tensor& x, const Tensor& t) {
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_compute_floating(x.dtype(), [&](auto zero) { forward<decltype(zero)>(x, t, y); });
  return record(op, {x, t}, std::move(y), keep::inputs, [](Backward& b) {
    if (b.recording())
      return give_by_decomposition(
          b, [](const std::vector<Tensor>& in) { return std::vector<Tensor>{composed_entropy(in[0], in[1])}; });
    const Tensor x = b.x(0), t = b.x(1), dy = b.dy();
    if (b.wants(0)) {
      Tensor dx = Tensor::empty(x.shape(), x.dtype());
      dispatch_compute_floating(x.dtype(), [&](auto zero) { backward<decltype(zero)>(x, t, dy, dx); });
      b.give(0, std::move(dx));
    }
    if (b.wants(1)) b.give(1, -(dy * x));  // softplus(-x) - softplus(x) = -x
  });
}

}  // namespace fit
