#pragma once
#include <cstdint>
#include <string>
#include <type_traits>

#include "fit/nn/layer/layer.hpp"

namespace fit::nn {

/// y = x weight^T + bias: x [..., in] -> [..., out]. Both parameters start uniform in ±1/sqrt(in), as in PyTorch.
/// init.hpp has other initialisers (`init::xavier_uniform_(linear.weight)`).
class Linear final : public UnaryLayer {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, bool bias = true);
  template <class T, class = std::enable_if_t<!std::is_same_v<T, bool>>>
  Linear(std::int64_t, std::int64_t, T) = delete;  // rejects a number for the bool
  /// Shares the parameters of other layers (tied weights): [out, in], and [out] or undefined.
  explicit Linear(const Parameter& weight, const Parameter& bias = {});
  explicit Linear(...) = delete;  // give (in_features, out_features, bias = true), or (weight, bias)
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS_DECLARED
  std::string describe() const override;

  /// The sizes of the weight, and whether there is a bias.
  std::int64_t in_features() const { return weight.value_size(1); }
  std::int64_t out_features() const { return weight.value_size(0); }
  bool has_bias() const { return bias.original().defined(); }

  Parameter weight, bias;  // [out, in], [out] or undefined
};

/// Looks up rows of a table: ids [...] (int64, 0 … num_embeddings - 1) -> [..., embedding_dim]. The rows start normal
/// with standard deviation 1. The row `padding_idx`, if given, starts at 0 and gets no gradient.
class Embedding final : public UnaryLayer {
 public:
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, std::int64_t padding_idx = -1);
  explicit Embedding(...) = delete;  // give (num_embeddings, embedding_dim, padding_idx = -1)
  Tensor forward(const Tensor& ids) const override;
  FIT_FIELDS_DECLARED
  std::string describe() const override;
  /// The id whose row gets no gradient; -1: none.
  std::int64_t padding_idx() const { return padding_idx_; }

  Parameter weight;  // [num_embeddings, embedding_dim]

 private:
  std::int64_t padding_idx_;
};

}  // namespace fit::nn
