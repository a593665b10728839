#include "fit/nn/feed_forward.hpp"

#include "base/joined.hpp"
#include "fit/named_values.hpp"
#include "fit/ops.hpp"
#include "layers/linear_function.hpp"
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

// The function of a projection.
const kernels::Function& function_of(Activation a) {
  switch (a) {
    case Activation::gelu:
    case Activation::geglu:
      return kernels::Function::gelu;
    case Activation::gelu_tanh:
      return kernels::Function::gelu_tanh;
    case Activation::swiglu:
      return kernels::Function::silu;
    default:
      return kernels::Function::relu;
  }
}
}  // namespace

FIT_FIELDS_OF(FeedForward, fc, gate, proj, inner_dropout, dropout)

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
  const Tensor h = gate ? fc(x) : Tensor(),
               y = apply_to_linear(function_of(options_.activation()), gate ? *gate : fc, x);
  const Tensor post = gate ? y * h : options_.activation() == Activation::squared_relu ? square(y) : y;
  return dropout(proj(inner_dropout(observed("post", post))));
}

std::string FeedForward::describe() const {
  return joined("d_model=", d_model_, ", hidden=", hidden_, ", activation=", name_of(options_.activation()));
}

}  // namespace fit::nn
