#pragma once

#include <functional>

#include "fit/tensor/tensor.hpp"

namespace fit {

/// Computes f(x), but keeps only x for backward(). The intermediate values of f are freed at once, and computed again
/// when their gradients are needed. This saves memory for the price of computing f twice (Chen et al. 2016, "Training
/// deep nets with sublinear memory cost"). Like PyTorch's torch.utils.checkpoint.
///
///     for (const nn::SequenceLayer& block : model.h) x = checkpoint([&](const Tensor& z) { return block(z); }, x);
///
/// Tensors and parameters that f captures get gradients, too. The second call of f draws the same random numbers. The
/// value has the same bits as f(x), and so have the gradients of tensors that only f uses. Gradients of tensors that
/// are also used elsewhere are summed in another order. Gradients can be differentiated again. Each call of f must
/// compute the same result from the same tensors. f is kept until backward() ends, and captured references must live as
/// long. While nothing is recorded, the result is f(x).
///
/// backward() throws Error if f does something else than before: if x or another tensor that f uses was changed in
/// place in between, if f draws more or fewer random numbers, or if its result has other bits, for example because
/// eval() was called, or a hook was removed.
///
/// BatchNorm updates its running statistics in the first call of f only. What f itself changes, it changes twice.
Tensor checkpoint(std::function<Tensor(const Tensor&)> f, const Tensor& x);

namespace detail {
/// Whether this thread computes an f again.
bool computing_again() noexcept;
}  // namespace detail

}  // namespace fit
