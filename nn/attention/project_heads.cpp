#include "fit/graph/named_values.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/ops/ops.hpp"

namespace fit::nn {

Tensor project_heads(const Linear& proj, const Tensor& z, std::int64_t num_heads) {
  const Tensor y = proj(z);
  if (!value_wanted("head_out")) return y;
  const std::int64_t S = z.size(-2), B = z.numel() / (S * z.size(-1)), D = z.size(-1) / num_heads;
  const Tensor heads = transpose(reshape(z, {B, S, num_heads, D}), 1, 2);                   // [B, H, S, D]
  const Tensor rows = reshape(transpose(proj.weight.value()), {num_heads, D, y.size(-1)});  // [H, D, C]
  const Tensor parts = matmul(heads, rows), given = observed("head_out", parts);
  return given.impl() == parts.impl() ? y : y + reshape(sum(given - parts, 1), y.shape());
}

}  // namespace fit::nn
