#include "fit/nn/layers/feed_forward.hpp"

#include "base/joined.hpp"
#include "fit/graph/named_values.hpp"
#include "fit/ops/ops.hpp"
#include "layer/sizes.hpp"
#include "layers/layer_options.hpp"
#include "layers/linear_function.hpp"

namespace fit::nn {

namespace {

struct Kind {
  const char* name;
  const kernels::Function* function;  // of a projection; null where it takes a whole row
  bool gated = false;
};

const Kind& kind_of(Activation a) {
  using F = kernels::Function;
  // In the order of Activation.
  static const Kind kinds[] = {
      {"relu", &F::relu},         {"gelu", &F::gelu},        {"gelu_tanh", &F::gelu_tanh},
      {"swiglu", &F::silu, true}, {"geglu", &F::gelu, true}, {"geglu_tanh", &F::gelu_tanh, true},
      {"squared_relu", &F::relu}, {"solu", nullptr},
  };
  return kinds[static_cast<int>(a)];
}

}  // namespace

const char* name_of(Activation a) { return kind_of(a).name; }
bool is_gated(Activation a) { return kind_of(a).gated; }

FIT_FIELDS_OF(FeedForward, fc, gate, ln, proj, inner_dropout, dropout)

FeedForward::FeedForward(std::int64_t d_model, std::int64_t hidden, const FeedForwardOptions& o)
    : d_model_(positive("FeedForward", "d_model", d_model)),
      hidden_(positive("FeedForward", "hidden", hidden)),
      options_(o),
      fc(d_model, hidden, o.bias()),
      gate(is_gated(o.activation()) ? std::optional<Linear>(std::in_place, d_model, hidden, o.bias()) : std::nullopt),
      ln(o.activation() == Activation::solu ? std::optional<LayerNorm>(std::in_place, hidden) : std::nullopt),
      proj(hidden, d_model, o.bias()),
      inner_dropout(o.inner_dropout()),
      dropout(o.dropout()) {}

Tensor FeedForward::forward(const Tensor& x) const {
  const kernels::Function* const function = kind_of(options_.activation()).function;
  const Tensor h = gate ? fc(x) : Tensor(), y = function ? apply_to_linear(*function, gate ? *gate : fc, x) : fc(x);
  Tensor post = gate ? y * h : options_.activation() == Activation::squared_relu ? y * y : y;
  if (ln) post = (*ln)(y * softmax(y, -1));
  return dropout(proj(inner_dropout(observed("post", post))));
}

std::vector<std::pair<std::string, std::string>> FeedForward::saved_options() const {
  return {{"activation", name_of(options_.activation())}};
}

std::string FeedForward::describe() const {
  return joined("d_model=", d_model_, ", hidden=", hidden_, ", activation=", name_of(options_.activation()));
}

}  // namespace fit::nn
