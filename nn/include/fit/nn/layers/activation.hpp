#pragma once
#include <string>

#include "fit/detail/function.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/ops/ops.hpp"

/// Functions of ops.hpp as layers.
namespace fit::nn {

namespace detail {

/// A layer that calls one unary function without options.
template <class Self, Tensor (*f)(const Tensor&)>
class Plain : public UnaryLayer {
 public:
  Tensor forward(const Tensor& x) const override { return f(x); }
  void fields(Fields& list) override { list.self(static_cast<Self&>(*this)); }
};

/// A layer that calls one unary function with an option.
template <class Self, class Option, Tensor (*f)(const Tensor&, Option)>
class WithOption : public UnaryLayer {
 public:
  explicit WithOption(Option option) : option_(option) {}
  Tensor forward(const Tensor& x) const override { return f(x, option_); }
  void fields(Fields& list) override { list.self(static_cast<Self&>(*this)); }

 protected:
  Option option_;
};

}  // namespace detail

class ReLU final : public detail::Plain<ReLU, fit::relu> {};
class SiLU final : public detail::Plain<SiLU, fit::silu> {};
class Tanh final : public detail::Plain<Tanh, fit::tanh> {};
class Sigmoid final : public detail::Plain<Sigmoid, fit::sigmoid> {};

class Softplus final : public detail::Plain<Softplus, fit::softplus> {};
class LogSigmoid final : public detail::Plain<LogSigmoid, fit::log_sigmoid> {};

/// Returns x.
class Identity final : public UnaryLayer {
 public:
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS_DECLARED
};

/// Merges axes first … last into one. By default the first axis (the batch) stays.
class Flatten final : public UnaryLayer {
 public:
  explicit Flatten(int first = 1, int last = -1) : first_(first), last_(last) {}
  Tensor forward(const Tensor& x) const override { return flatten(x, first_, last_); }
  FIT_FIELDS_DECLARED
  std::string describe() const override;

 private:
  int first_, last_;
};

/// A function as a layer: nn::Lambda([](const Tensor& x) { return x * x; }). The layer lists no parameters of the
/// function. A clone shares everything that the function refers to.
class Lambda final : public UnaryLayer {
 public:
  /// Throws Error for an empty function.
  explicit Lambda(std::function<Tensor(const Tensor&)> f);
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS_DECLARED

 private:
  std::function<Tensor(const Tensor&)> f_;
};

/// x where x > 0, else alpha (e^x - 1).
class ELU final : public detail::WithOption<ELU, double, fit::elu> {
 public:
  explicit ELU(double alpha = 1) : WithOption(alpha) {}
  std::string describe() const override;
};

/// x where x > 0, else negative_slope x.
class LeakyReLU final : public detail::WithOption<LeakyReLU, double, fit::leaky_relu> {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : WithOption(negative_slope) {}
  std::string describe() const override;
};

/// x Phi(x), where Phi is the normal distribution function: exact, or with the tanh approximation.
class GELU final : public detail::WithOption<GELU, Gelu, fit::gelu> {
 public:
  explicit GELU(Gelu form = Gelu::exact) : WithOption(form) {}
  std::string describe() const override;
};

/// e^x_i / sum_j e^x_j along an axis.
class Softmax final : public detail::WithOption<Softmax, int, fit::softmax> {
 public:
  explicit Softmax(int axis = -1) : WithOption(axis) {}
  std::string describe() const override;
};

/// The logarithm of Softmax, without overflow.
class LogSoftmax final : public detail::WithOption<LogSoftmax, int, fit::log_softmax> {
 public:
  explicit LogSoftmax(int axis = -1) : WithOption(axis) {}
  std::string describe() const override;
};

}  // namespace fit::nn
