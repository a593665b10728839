#pragma once
#include <functional>

#include "fit/tensor.hpp"

namespace fit {

/// f(x), of which backward() keeps nothing but x: what f computes on the way is freed at once and computed again when
/// its gradient is needed. Memory falls from all that f keeps to x, for the price of computing f once more (Chen et al.
/// 2016, "Training deep nets with sublinear memory cost").
///
///     for (const nn::GPTBlock& block : model.h) x = checkpoint([&](const Tensor& z) { return block(z); }, x);
///
/// Tensors and parameters that f captures get their gradients, too, and random numbers are drawn with the same keys
/// again. The value has the bits of f(x), and so have the gradients of what f alone uses; what is used elsewhere as
/// well gets its sum in another order. Gradients can be differentiated again. f must compute the same from the same
/// tensors each time; it is kept until backward() is through, and what it captures by reference must live as long.
/// While nothing is recorded it is f(x). backward() throws Error if a tensor that f uses was changed meanwhile, or if f
/// draws other random numbers than before. Called after PyTorch's torch.utils.checkpoint.
Tensor checkpoint(std::function<Tensor(const Tensor&)> f, const Tensor& x);

}  // namespace fit
