#include "fit/nn/models/transformer.hpp"

#include <cmath>

#include "attention/attend.hpp"
#include "base/joined.hpp"
#include "common/rollback.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/nn/layers/position.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/ops/ops.hpp"
#include "layer/sizes.hpp"
#include "models/evaluation.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

const TransformerOptions& checked(const TransformerOptions& o) {
  constexpr const char* op = "Transformer";
  positive(op, "source_vocab", o.source_vocab());
  positive(op, "target_vocab", o.target_vocab());
  positive(op, "max_length", o.max_length());
  positive(op, "d_model", o.d_model());
  fit::detail::check_numbers(op, AttentionOptions().dropout(o.dropout()));
  return o;
}

// Initialises every Linear of the layer and its sublayers.
void start(const Layer& layer) {
  for (const auto& [name, linear] : layer.named_layers<Linear>()) {
    init::xavier_uniform_(linear->weight);
    if (linear->bias.defined()) init::zeros_(linear->bias);
  }
}

}  // namespace

FIT_FIELDS_OF(Transformer, source_embedding, target_embedding, encoder, decoder, head, dropout)

Transformer::Transformer(const TransformerOptions& o, const init::Skip&)
    : options_(checked(o)),
      positions_(sinusoidal_positions(o.max_length(), o.d_model())),
      source_embedding(o.source_vocab(), o.d_model()),
      target_embedding(o.target_vocab(), o.d_model()),
      encoder(o, o.num_encoder_layers()),
      decoder(o, o.num_decoder_layers()),
      head(o.tie_weights() ? Linear(target_embedding.weight) : Linear(o.d_model(), o.target_vocab(), false)),
      dropout(o.dropout()) {}

Transformer::Transformer(const TransformerOptions& o) : Transformer(o, init::Skip()) {
  const double std = 1 / std::sqrt(static_cast<double>(o.d_model()));
  init::normal_(source_embedding.weight, 0, std);
  init::normal_(target_embedding.weight, 0, std);
  start(encoder);
  start(decoder);
  if (!o.tie_weights()) init::xavier_uniform_(head.weight);
}

Tensor Transformer::embed(const char* name, const Embedding& table, const Tensor& ids, std::int64_t before) const {
  check::defined("Transformer", name, ids);
  if (ids.rank() != 2 || before + ids.size(1) > options_.max_length())
    check::fail("Transformer", name, " has shape ", ids.shape(), " behind ", before,
                " positions: it must be [B, T], and all together at most max_length, ", options_.max_length());
  const Tensor at = slice(positions_, 0, before, before + ids.size(1));
  const Tensor x = table(ids) * std::sqrt(static_cast<double>(options_.d_model()));
  return dropout(x + at.to(x.dtype()));
}

Tensor Transformer::encode(const Tensor& source, const Tensor& source_mask) const {
  return within(*this, [&] {
    const Tensor x = embed("source", source_embedding, source, 0);
    return encoder.forward(x, without_padding(source_mask, x));
  });
}

Tensor Transformer::forward(const Tensor& source, const Tensor& target, const Tensor& source_mask,
                            TransformerWeights* weights) const {
  check::defined("Transformer", "source", source, "target", target);
  if (source.rank() == 2 && target.rank() == 2 && source.size(0) != target.size(0))
    check::fail("Transformer", "source has shape ", source.shape(), ", target ", target.shape(),
                ": they must have the same batch");
  return within(*this, [&] {
    const Tensor memory = encode(source, source_mask);
    return head(decoder.forward(embed("target", target_embedding, target, 0), memory,
                                DecoderTerms().memory(source_mask), weights));
  });
}

DecoderCache Transformer::make_cache(const Tensor& source, const Tensor& source_mask) const {
  check_drops_nothing("Transformer", "the model", *this);
  const NoGrad no_grad;
  return within(*this,
                [&] { return decoder.make_cache(encode(source, source_mask), source_mask, options_.max_length()); });
}

Tensor Transformer::decode(const Tensor& target, DecoderCache& cache) const {
  check_drops_nothing("Transformer", "the model", *this);
  const NoGrad no_grad;
  const std::int64_t length = cache.self.length();
  const Rollback forget([&] { cache.self.truncate(length); });
  return within(*this, [&] { return head(decoder.forward(embed("target", target_embedding, target, length), cache)); });
}

std::string Transformer::describe() const {
  const TransformerOptions& o = options_;
  return joined("source_vocab=", o.source_vocab(), ", target_vocab=", o.target_vocab(), ", d_model=", o.d_model(),
                ", num_heads=", o.num_heads(), ", norm_first=", o.norm_first());
}

std::vector<std::vector<Hypothesis>> beam_search(const Transformer& model, const Tensor& source,
                                                 const Tensor& source_mask, const BeamOptions& options) {
  check_drops_nothing("beam_search", "the model", model);
  if (options.max_length() > model.options().max_length())
    check::fail("beam_search", "max_length is ", options.max_length(), ": the model's is ",
                model.options().max_length());
  DecoderCache cache = model.make_cache(source, source_mask);
  const BeamStep step = [&](const Tokens& tokens, const std::vector<std::int64_t>& parents) {
    cache.select(parents);
    const auto rows = static_cast<std::int64_t>(tokens.size());
    return squeeze(model.decode(tensor(tokens, {rows, 1}), cache), 1);
  };
  return beam_search(step, source.size(0), options);
}

}  // namespace fit::nn
