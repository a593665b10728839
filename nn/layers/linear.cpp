#include "fit/nn/layers/linear.hpp"

#include <cmath>

#include "base/joined.hpp"
#include "fit/graph/named_values.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/ops/ops.hpp"
#include "int8/linear.hpp"
#include "layer/sizes.hpp"
#include "layers/linear_function.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

FIT_FIELDS_OF(Linear, weight, bias)

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias) {
  check_size("Linear", "in_features", in_features);
  check_size("Linear", "out_features", out_features);
  const double bound = in_features > 0 ? 1 / std::sqrt(static_cast<double>(in_features)) : 0;
  weight = Parameter(init::uniform_(Tensor::empty({out_features, in_features}), -bound, bound));
  if (with_bias) bias = Parameter(init::uniform_(Tensor::empty({out_features}), -bound, bound));
}

Linear::Linear(const Parameter& w, const Parameter& b) : weight(w), bias(b) {
  const Tensor& matrix = w.original();
  if (matrix.rank() != 2) check::fail("Linear", "weight has shape ", matrix.shape(), ": it must be [out, in]");
  if (has_bias()) check::shape("Linear", "bias", b.original(), {out_features()});
}

Tensor Linear::forward(const Tensor& x) const {
  check_last("Linear", x, "in_features", in_features(), "weight", weight.original());
  return linear(x, weight.operand(), bias.value());
}

Tensor apply_to_linear(const kernels::Function& f, const Linear& layer, const Tensor& x) {
  if (fit::detail::thread_state.observed || layer.hooked()) return fit::detail::apply(f, observed("pre", layer(x)));
  return within(layer, [&] {
    check_last("Linear", x, "in_features", layer.in_features(), "weight", layer.weight.original());
    return fit::detail::apply_to_linear(f, x, layer.weight.operand(), layer.bias.value());
  });
}

std::string Linear::describe() const {
  return joined("in_features=", in_features(), ", out_features=", out_features(), ", bias=", has_bias());
}

FIT_FIELDS_OF(Embedding, weight)

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, std::int64_t padding_idx)
    : padding_idx_(padding_idx) {
  positive("Embedding", "num_embeddings", num_embeddings);
  positive("Embedding", "embedding_dim", embedding_dim);
  if (padding_idx < -1 || padding_idx >= num_embeddings)
    check::fail("Embedding", "padding_idx is ", padding_idx, ": it must be one of the ", num_embeddings,
                " rows, or -1 for none");
  Tensor rows = init::normal_(Tensor::empty({num_embeddings, embedding_dim}));
  if (padding_idx >= 0) rows[padding_idx] = zeros({embedding_dim});
  weight = Parameter(rows);
}

Tensor Embedding::forward(const Tensor& ids) const { return embedding(weight.operand(), ids, padding_idx_); }

std::string Embedding::describe() const {
  return joined("num_embeddings=", weight.value_size(0), ", embedding_dim=", weight.value_size(1),
                ", padding_idx=", padding_idx_);
}

}  // namespace fit::nn
