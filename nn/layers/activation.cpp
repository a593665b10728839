#include "fit/nn/layers/activation.hpp"

#include <utility>

#include "base/joined.hpp"
#include "layer/sizes.hpp"
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

ELU::ELU(double alpha) : WithOption(alpha) {}

std::string ELU::describe() const { return joined("alpha=", option_); }

LeakyReLU::LeakyReLU(double negative_slope) : WithOption(negative_slope) {}
std::string CELU::describe() const { return joined("alpha=", option_); }

std::string Softplus::describe() const { return joined("beta=", option_); }

FIT_FIELDS_OF(PReLU, weight)

PReLU::PReLU(std::int64_t num_parameters, double init) {
  positive("PReLU", "num_parameters", num_parameters);
  weight = Parameter(full({num_parameters}, init));
}

Tensor PReLU::forward(const Tensor& x) const { return prelu(x, weight.value()); }

std::string PReLU::describe() const { return joined("num_parameters=", weight.original().numel()); }

std::string LeakyReLU::describe() const { return joined("negative_slope=", option_); }

GELU::GELU(Gelu form) : WithOption(form) {}

std::string GELU::describe() const { return option_ == Gelu::tanh ? "form=tanh" : "form=exact"; }

Softmax::Softmax(int axis) : WithOption(axis) {}

std::string Softmax::describe() const { return joined("axis=", option_); }

LogSoftmax::LogSoftmax(int axis) : WithOption(axis) {}

std::string LogSoftmax::describe() const { return joined("axis=", option_); }

}  // namespace fit::nn
