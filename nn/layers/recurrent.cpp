#include "fit/nn/recurrent.hpp"

#include <cmath>

#include "fit/nn/init.hpp"
#include "fit/ops.hpp"
#include "layers/describe.hpp"
#include "layers/sizes.hpp"

namespace fit::nn {

Recurrent::Recurrent(const char* name, std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size)
    : name_(name) {
  positive(name, "input_size", input_size);
  positive(name, "hidden_size", hidden_size);
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  const auto drawn = [&](const Shape& shape) { return Parameter(init::uniform_(Tensor::empty(shape), -bound, bound)); };
  weight_ih = drawn({gates * hidden_size, input_size});
  weight_hh = drawn({gates * hidden_size, hidden_size});
  bias_ih = drawn({gates * hidden_size});
  bias_hh = drawn({gates * hidden_size});
}

RecurrentResult Recurrent::run(const Tensor& x, RecurrentState state) const {
  const Tensor w = weight_ih.value(), u = weight_hh.value(), b = bias_hh.value();
  check_last(name_, x, "input_size", w.size(1), "weight_ih", w);
  if (x.rank() != 3 || x.size(1) == 0)
    check::fail(name_, "x has shape ", x.shape(), ": it must be [B, T, ", w.size(1), "] with T at least 1");
  const Shape shape{x.size(0), u.size(1)};
  for (Tensor* const t : {&state.h, &state.c}) {
    if (!t->defined()) *t = zeros(shape, x.dtype());
    check::shape(name_, t == &state.h ? "the state's h" : "the state's c", *t, shape);
  }
  // The input's share of all steps is one product.
  std::vector<Tensor> outputs;
  for (const Tensor& of_x : unbind(linear(x, w, bias_ih.value()), 1)) {
    state = step(of_x, linear(state.h, u, b), state);
    outputs.push_back(state.h);
  }
  return {stack(outputs, 1), state};
}

std::string Recurrent::describe() const {
  return describe_all("input_size=", input_size(), ", hidden_size=", hidden_size());
}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size) : Recurrent("LSTM", 4, input_size, hidden_size) {}

RecurrentState LSTM::step(const Tensor& of_x, const Tensor& of_h, const RecurrentState& last) const {
  const std::vector<Tensor> gates = chunk(of_x + of_h, 4, -1);
  const Tensor c = sigmoid(gates[1]) * last.c + sigmoid(gates[0]) * tanh(gates[2]);
  return {sigmoid(gates[3]) * tanh(c), c};
}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size) : Recurrent("GRU", 3, input_size, hidden_size) {}

RecurrentState GRU::step(const Tensor& of_x, const Tensor& of_h, const RecurrentState& last) const {
  const std::vector<Tensor> x = chunk(of_x, 3, -1), h = chunk(of_h, 3, -1);
  const Tensor r = sigmoid(x[0] + h[0]), z = sigmoid(x[1] + h[1]), n = tanh(x[2] + r * h[2]);
  return {n + z * (last.h - n), last.c};
}

}  // namespace fit::nn
