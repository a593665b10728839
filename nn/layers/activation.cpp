#include "fit/nn/layers/activation.hpp"

#include <utility>

#include "base/joined.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

void Identity::fields(Fields& f) { f.self(*this); }

Tensor Identity::forward(const Tensor& x) const {
  check::defined("Identity", "x", x);
  return x;
}

void Flatten::fields(Fields& f) { f.self(*this); }

std::string Flatten::describe() const { return joined("first=", first_, ", last=", last_); }

void Lambda::fields(Fields& f) { f.self(*this); }

Lambda::Lambda(std::function<Tensor(const Tensor&)> f) : f_(std::move(f)) {
  if (!f_) check::fail("Lambda", "the function is empty: give one");
}

Tensor Lambda::forward(const Tensor& x) const {
  check::defined("Lambda", "x", x);
  return f_(x);
}

std::string ELU::describe() const { return joined("alpha=", option_); }

std::string LeakyReLU::describe() const { return joined("negative_slope=", option_); }

std::string GELU::describe() const { return option_ == Gelu::tanh ? "form=tanh" : "form=exact"; }

std::string Softmax::describe() const { return joined("axis=", option_); }

std::string LogSoftmax::describe() const { return joined("axis=", option_); }

}  // namespace fit::nn
