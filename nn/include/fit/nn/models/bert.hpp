#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "fit/base/option.hpp"
#include "fit/nn/models/transformer.hpp"

/// The bidirectional encoder of Devlin et al. 2018. bert_names() in fit/nn/weights/weights.hpp loads pretrained
/// weights.
namespace fit::nn {

/// The options of BERT. The defaults are those of the paper: exact GELU, norms after the sums, eps 1e-12.
struct BERTOptions : TransformerLayerOptions {
  BERTOptions() { activation(Activation::gelu).eps(1e-12); }

  FIT_OPTION(std::int64_t, vocab_size) = 0;    ///< The number of tokens.
  FIT_OPTION(std::int64_t, max_length) = 512;  ///< The max length of a text.
  FIT_OPTION(std::int64_t, num_layers) = 0;    ///< The number of encoder layers.
  FIT_OPTION(std::int64_t, num_segments) = 2;  ///< The number of segments, first and second text; 0: none.
  FIT_INHERITED_OPTIONS(TransformerLayerOptions, d_model, num_heads, hidden, dropout, activation, norm_first, bias,
                        num_kv_heads, eps, final_norm)
};

/// ids [B, T] -> vectors [B, T, d_model]: encoder(norm(word(ids) + position(0 … T - 1) + segment(segments))).
class BERT final : public Layer {
  BERTOptions options_;

 public:
  /// Throws Error for sizes that are not positive.
  explicit BERT(const BERTOptions& options);

  /// ids [B, T] (int64). The mask masks padding, as create_padding_mask() makes it. segments [B, T] (int64) is the
  /// segment of each token, 0 if not given. Appends the attention weights of each layer to `weights` unless it is null.
  /// Outputs at padding have no meaning. They are 0 if `weights` is null. If in addition there is no dropout, the
  /// encoder's layers and their hooks see only the N real tokens, [N, d_model]. Throws Error past max_length.
  Tensor forward(const Tensor& ids, const Tensor& mask = {}, const Tensor& segments = {},
                 TransformerWeights* weights = nullptr) const;

  /// The options of the constructor.
  const BERTOptions& options() const { return options_; }
  FIT_FIELDS_DECLARED
  std::string describe() const override;
  std::vector<std::pair<std::string, std::string>> saved_options() const override;

  Embedding word, position;          // [vocab_size, d_model], [max_length, d_model]
  std::optional<Embedding> segment;  // [num_segments, d_model], or none
  LayerNorm norm;
  Dropout dropout;
  TransformerEncoder encoder;
};

}  // namespace fit::nn
