#include "fit/nn/recurrent.hpp"

#include <cmath>

#include "fit/nn/init.hpp"
#include "fit/ops.hpp"
#include "fit/recurrent.hpp"
#include "layers/describe.hpp"
#include "layers/sizes.hpp"

namespace fit::nn {

Recurrent::Recurrent(const char* name, std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size,
                     const RecurrentOptions& options)
    : name_(name), input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  positive(name, "input_size", input_size);
  positive(name, "hidden_size", hidden_size);
  positive(name, "num_layers", options.num_layers());
  if (!(options.dropout() >= 0 && options.dropout() <= 1))
    check::fail(name, "dropout is ", options.dropout(), ": it must be a probability, 0 … 1");
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  const auto drawn = [&](const Shape& shape) { return Parameter(init::uniform_(Tensor::empty(shape), -bound, bound)); };
  const auto both = static_cast<std::int64_t>(directions());
  for (std::int64_t i = 0; i < options.num_layers() * both; ++i) {
    Weights w;
    w.weight_ih = drawn({gates * hidden_size, i < both ? input_size : both * hidden_size});
    w.weight_hh = drawn({gates * hidden_size, hidden_size});
    if (options.bias()) w.bias_ih = drawn({gates * hidden_size}), w.bias_hh = drawn({gates * hidden_size});
    weights_.push_back(std::move(w));
  }
}

void Recurrent::list(Fields& f) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const std::string of = "_l" + std::to_string(i / directions()) + (i % directions() == 0 ? "" : "_reverse");
    f("weight_ih" + of, weights_[i].weight_ih);
    f("weight_hh" + of, weights_[i].weight_hh);
    f("bias_ih" + of, weights_[i].bias_ih);
    f("bias_hh" + of, weights_[i].bias_hh);
  }
}

// [num_layers * directions, B, H]
Tensor Recurrent::initial(const char* name, const Tensor& given, const Tensor& x) const {
  const Shape shape{static_cast<std::int64_t>(weights_.size()), x.size(0), hidden_size_};
  if (!given.defined()) return zeros(shape, x.dtype());
  check::shape(name_, name, given, shape);
  return given;
}

RecurrentResult Recurrent::run(const Tensor& x, const RecurrentState& state) const {
  check_last(name_, x, "input_size", input_size_, "weight_ih_l0", weights_[0].weight_ih.original());
  if (x.rank() != 3 || x.size(1) == 0)
    check::fail(name_, "x has shape ", x.shape(), ": it must be [B, T, ", input_size_, "] with T at least 1");
  const std::vector<Tensor> h = unbind(initial("the state's h", state.h, x)),
                            c = unbind(initial("the state's c", state.c, x));
  std::vector<Tensor> last_h, last_c;
  Tensor input = x;  // of a layer
  for (std::size_t i = 0; i < weights_.size(); i += directions()) {
    if (i > 0 && training() && options_.dropout() > 0) input = dropout(input, options_.dropout());
    std::vector<Tensor> outputs;  // of the directions
    for (std::size_t k = i; k < i + directions(); ++k) {
      const Weights& w = weights_[k];
      const auto in_order = [&](const Tensor& t) { return k > i ? flip(t, {1}) : t; };
      const Tensor of_x = linear(input, w.weight_ih.value(), w.bias_ih.value());
      const Steps all = steps(in_order(of_x), w.weight_hh.value(), w.bias_hh.value(), h[k], c[k]);
      last_h.push_back(squeeze(slice(all.h, 1, x.size(1) - 1, x.size(1)), 1));
      last_c.push_back(all.c);
      outputs.push_back(in_order(all.h));
    }
    input = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
  }
  return {input, {stack(last_h), stack(last_c)}};
}

std::string Recurrent::describe() const {
  return describe_all("input_size=", input_size_, ", hidden_size=", hidden_size_,
                      ", num_layers=", options_.num_layers(), ", bias=", options_.bias(),
                      ", dropout=", options_.dropout(), ", bidirectional=", options_.bidirectional());
}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent("LSTM", 4, input_size, hidden_size, options) {}

Recurrent::Steps LSTM::steps(const Tensor& of_x, const Tensor& weight, const Tensor& bias, const Tensor& h,
                             const Tensor& c) const {
  const auto [all, last] = lstm_steps(of_x, weight, bias, h, c);
  return {all, last};
}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent("GRU", 3, input_size, hidden_size, options) {}

Recurrent::Steps GRU::steps(const Tensor& of_x, const Tensor& weight, const Tensor& bias, const Tensor& h,
                            const Tensor& c) const {
  return {gru_steps(of_x, weight, bias, h), c};
}

}  // namespace fit::nn
