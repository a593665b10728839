#include "fit/nn/activation.hpp"

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

void ELU::fields(Fields& f) { f.self(*this); }

std::string ELU::describe() const { return joined("alpha=", alpha_); }

void LeakyReLU::fields(Fields& f) { f.self(*this); }

std::string LeakyReLU::describe() const { return joined("negative_slope=", negative_slope_); }

void GELU::fields(Fields& f) { f.self(*this); }

std::string GELU::describe() const { return form_ == Gelu::tanh ? "form=tanh" : "form=exact"; }

void Softmax::fields(Fields& f) { f.self(*this); }

std::string Softmax::describe() const { return joined("axis=", axis_); }

void LogSoftmax::fields(Fields& f) { f.self(*this); }

std::string LogSoftmax::describe() const { return joined("axis=", axis_); }

}  // namespace fit::nn
