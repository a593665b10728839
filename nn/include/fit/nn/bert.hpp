#pragma once
#include <cstdint>
#include <string>

#include "fit/nn/transformer.hpp"
#include "fit/option.hpp"

/// The encoder of Devlin et al. 2018, which sees a text from both sides. Its trained weights: bert_names() in
/// fit/nn/weights.hpp.
namespace fit::nn {

/// As BERT was trained: exact GELU, norms behind the sums, with an eps of 1e-12.
struct BERTOptions : TransformerLayerOptions {
  BERTOptions() { activation(Activation::gelu).eps(1e-12); }

  FIT_OPTION(std::int64_t, vocab_size) = 0;    ///< The number of tokens.
  FIT_OPTION(std::int64_t, max_length) = 512;  ///< The longest text.
  FIT_OPTION(std::int64_t, num_layers) = 0;    ///< The number of encoder layers.
  FIT_OPTION(std::int64_t, num_segments) = 2;  ///< The number of segments: first and second text.
  FIT_INHERITED_OPTIONS(TransformerLayerOptions, d_model, num_heads, hidden, dropout, activation, norm_first, bias,
                        num_kv_heads, eps, final_norm)
};

/// ids [B, T] to vectors [B, T, d_model]: encoder(norm(word(ids) + position(0 … T - 1) + segment(segments))).
class BERT final : public Layer {
  BERTOptions options_;

 public:
  /// Throws Error for sizes that are not positive.
  explicit BERT(const BERTOptions& options);

  /// ids [B, T] (int64). The mask hides padding, as create_padding_mask() makes it. segments [B, T] (int64): which text
  /// a token is of; the first if not given. The attention weights of each layer are added to `weights` if it is given.
  /// What stands at padding means nothing. Where no weights are asked for it is 0; where nothing is dropped either, the
  /// encoder's layers (and their hooks) see the N tokens that are there, [N, d_model].
  /// Throws Error for more than max_length tokens.
  Tensor forward(const Tensor& ids, const Tensor& mask = {}, const Tensor& segments = {},
                 TransformerWeights* weights = nullptr) const;
  Tensor operator()(const Tensor& ids, const Tensor& mask = {}) const { return forward(ids, mask); }

  /// What it was made with.
  const BERTOptions& options() const { return options_; }
  FIT_FIELDS(word, position, segment, norm, dropout, encoder)
  std::string describe() const override;

  Embedding word, position, segment;  // [vocab_size, d_model], [max_length, d_model], [num_segments, d_model]
  LayerNorm norm;
  Dropout dropout;
  TransformerEncoder encoder;
};

}  // namespace fit::nn
