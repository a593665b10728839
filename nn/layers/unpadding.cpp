
#include "fit/nn/attention.hpp"
#include "fit/ops.hpp"

namespace fit::nn {

std::optional<Unpadding> Unpadding::of(const Tensor& mask, const Shape& sequences) {
  if (!mask.defined() || sequences.rank() != 3) return std::nullopt;
  const std::int64_t batch = sequences[0], length = sequences[1];
  if (mask.shape() != Shape{batch, 1, length} && mask.shape() != Shape{batch, 1, 1, length}) return std::nullopt;
  Unpadding u;
  u.mask_ = mask;
  u.visible_ = ne(mask.detach(), 0).reshape({batch, length, 1});
  u.rows_ = nonzero(u.visible_.reshape({-1})).reshape({-1});
  if (u.rows_.numel() == batch * length) return std::nullopt;
  if (u.rows_.numel() == 0) u.rows_ = zeros({1}, int64);  // no token: the first place stands for all
  u.places_ = clamp_min(cumsum(u.visible_.reshape({-1}).to(int64), 0) - 1, 0);
  return u;
}

Tensor Unpadding::remove(const Tensor& x) const { return index_select(x.reshape({-1, x.size(2)}), 0, rows_); }

Tensor Unpadding::restore(const Tensor& x) const {
  return index_select(x, 0, places_).reshape({visible_.size(0), visible_.size(1), x.size(1)});
}

Tensor Unpadding::zero_padding(const Tensor& x) const { return where(visible_, x, 0); }

}  // namespace fit::nn
