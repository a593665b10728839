#pragma once
#include <vector>

#include "fit/nn/attention/attention.hpp"
#include "fit/nn/data/data.hpp"
#include "fit/nn/layers/dropout.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/ops/ops.hpp"

// Sequences of different lengths, and a model that reads them padded.
namespace fit::test {

/// 37 sequences of 2 to 9 tokens, 0 … 10; each token is the successor of the one before.
struct Sequences : data::Dataset {
  static constexpr std::int64_t padding = 11;
  std::int64_t size() const override { return 37; }
  std::int64_t length(std::int64_t i) const { return 2 + i * 5 % 8; }
  data::Example get(std::int64_t i) const override {
    std::vector<std::int64_t> ids;
    for (std::int64_t t = 0; t < length(i); ++t) ids.push_back((i * i + t) % 11);
    return {tensor(ids, {length(i)})};
  }
};

struct SequenceModel : nn::Layer {
  Tensor forward(const Tensor& ids, const Tensor& mask) const {  // [B, T], (B, 1, T) -> [B, T, 12]
    const Tensor x = token(ids);
    return out(dropout(x + attention(norm(x), mask)));
  }
  FIT_FIELDS(token, norm, attention, dropout, out)
  nn::Embedding token{12, 16};
  nn::LayerNorm norm{16};
  nn::CausalSelfAttention attention{16, 2, 0.2};
  nn::Dropout dropout{0.2};
  nn::Linear out{16, 12};
};

}  // namespace fit::test
