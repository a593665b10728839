#include "fit/nn/models/bert.hpp"

#include "attention/attend.hpp"
#include "base/joined.hpp"
#include "fit/ops/ops.hpp"
#include "layer/sizes.hpp"
#include "models/saved_options.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

constexpr const char* bert_op = "BERT";

const BERTOptions& checked(const BERTOptions& o) {
  positive(bert_op, "vocab_size", o.vocab_size());
  positive(bert_op, "max_length", o.max_length());
  check::not_negative(bert_op, "num_segments", o.num_segments());
  positive(bert_op, "d_model", o.d_model());
  positive(bert_op, "num_heads", o.num_heads());
  positive(bert_op, "num_layers", o.num_layers());
  fit::detail::check_numbers(bert_op, AttentionOptions().dropout(o.dropout()));
  return o;
}

// An embedding with normal initial values of standard deviation 0.02.
Embedding table(std::int64_t size, std::int64_t d_model) {
  Embedding rows = [&] {
    const init::Skip undrawn;
    return Embedding(size, d_model);
  }();
  init::normal_(rows.weight, 0, 0.02);
  return rows;
}

}  // namespace

FIT_FIELDS_OF(BERT, word, position, segment, norm, dropout, encoder)

BERT::BERT(const BERTOptions& o)
    : options_(checked(o)),
      word(table(o.vocab_size(), o.d_model())),
      position(table(o.max_length(), o.d_model())),
      segment(o.num_segments() == 0 ? std::nullopt : std::optional<Embedding>(table(o.num_segments(), o.d_model()))),
      norm(o.d_model(), o.eps()),
      dropout(o.dropout()),
      encoder(o, o.num_layers()) {}

Tensor BERT::forward(const Tensor& ids, const Tensor& mask, const Tensor& segments, TransformerWeights* weights) const {
  check::defined(bert_op, "ids", ids);
  if (ids.rank() != 2 || ids.size(1) > options_.max_length())
    check::fail(bert_op, "ids has shape ", ids.shape(), ": it must be [B, T], T at most max_length, ",
                options_.max_length());
  if (segments.defined() && segments.shape() != ids.shape())
    check::fail(bert_op, "segments has shape ", segments.shape(), ", ids ", ids.shape(), ": they must be equal");
  if (segments.defined() && !segment) check::fail(bert_op, "segments are given, and num_segments is 0: leave them out");
  return within(*this, [&] {
    Tensor sum = word(ids) + position(arange(ids.size(1)));
    if (segment) sum = sum + (*segment)(segments.defined() ? segments : zeros({1}, int64));
    const Tensor x = dropout(norm(sum));
    AttentionContext context = weights ? mask : without_padding(mask, x);
    if (weights) context.weights = &weights->self;
    return encoder.forward(x, context);
  });
}

OptionList BERT::saved_options() const { return option_list(options_); }

std::string BERT::describe() const {
  const BERTOptions& o = options_;
  return joined("vocab_size=", o.vocab_size(), ", max_length=", o.max_length(), ", d_model=", o.d_model(),
                ", num_heads=", o.num_heads());
}

}  // namespace fit::nn
