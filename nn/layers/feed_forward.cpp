#include "fit/nn/feed_forward.hpp"

#include "fit/named_values.hpp"
#include "fit/ops.hpp"
#include "layers/describe.hpp"
#include "layers/sizes.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

const char* name_of(Activation a) {
  switch (a) {
    case Activation::relu:
      return "relu";
    case Activation::gelu:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::swiglu:
      return "swiglu";
    case Activation::geglu:
      return "geglu";
    default:
      return "squared_relu";
  }
}

namespace {
bool gated(Activation a) { return a == Activation::swiglu || a == Activation::geglu; }
}  // namespace

FeedForward::FeedForward(std::int64_t d_model, std::int64_t hidden, const FeedForwardOptions& o)
    : d_model_(positive("FeedForward", "d_model", d_model)),
      hidden_(positive("FeedForward", "hidden", hidden)),
      options_(o),
      fc(d_model, hidden, o.bias()),
      gate(gated(o.activation()) ? std::optional<Linear>(std::in_place, d_model, hidden, o.bias()) : std::nullopt),
      proj(hidden, d_model, o.bias()),
      inner_dropout(o.inner_dropout()),
      dropout(o.dropout()) {}

Tensor FeedForward::forward(const Tensor& x) const {
  const Tensor h = fc(x), pre = observed("pre", gate ? (*gate)(x) : h);
  const auto activated = [&] {
    switch (options_.activation()) {
      case Activation::relu:
        return relu(pre);
      case Activation::gelu:
        return gelu(pre);
      case Activation::gelu_tanh:
        return gelu(pre, Gelu::tanh);
      case Activation::swiglu:
        return silu(pre) * h;
      case Activation::geglu:
        return gelu(pre) * h;
      default:
        return square(relu(pre));
    }
  };
  return dropout(proj(inner_dropout(observed("post", activated()))));
}

std::string FeedForward::describe() const {
  return describe_all("d_model=", d_model_, ", hidden=", hidden_, ", activation=", name_of(options_.activation()));
}

}  // namespace fit::nn
