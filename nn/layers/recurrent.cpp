#include "fit/nn/layers/recurrent.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/joined.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/ops/ops.hpp"
#include "fit/ops/recurrent.hpp"
#include "layer/sizes.hpp"

namespace fit::nn {

Recurrent::Recurrent(const char* name, std::int64_t gates, Steps steps, std::int64_t input_size,
                     std::int64_t hidden_size, const RecurrentOptions& options)
    : name_(name), steps_(steps), input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  positive(name, "input_size", input_size);
  positive(name, "hidden_size", hidden_size);
  positive(name, "num_layers", options.num_layers());
  if (!(options.dropout() >= 0 && options.dropout() <= 1))
    check::fail(name, "dropout is ", options.dropout(), ": it must be a probability, 0 … 1");
  if (options.dropout() > 0 && options.num_layers() == 1)
    check::fail(
        name, "dropout is ", options.dropout(),
        " with one layer: it lies between layers, so it would do nothing. Set num_layers to 2 or more, or put a "
        "Dropout after this layer");
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

RecurrentResult Recurrent::operator()(const Tensor& x, const RecurrentState& state, const Tensor& lengths) const {
  return within(*this, [&] { return run(x, state, lengths); });
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

namespace {

// Sequences of unequal lengths, the longest first: then each step has the first so many rows. Neighbouring steps with
// the same rows are one run. Packed are the steps of all runs, [N, features].
class Packing {
 public:
  Packing(const char* op, const Tensor& x, const Tensor& lengths) : B_(x.size(0)), T_(x.size(1)) {
    if (!lengths.defined()) return;
    check::defined(op, "lengths", lengths);
    if (lengths.dtype() != int64 || lengths.shape() != Shape{B_})
      check::fail(op, "lengths is ", lengths.dtype(), ' ', lengths.shape(), ", x has shape ", x.shape(),
                  ": lengths must be int64 [", B_, "]");
    const std::vector<std::int64_t> sizes = lengths.to_vector<std::int64_t>();
    for (const std::int64_t n : sizes)
      if (n < 1 || n > T_)
        check::fail(op, "a length is ", n, ", x has shape ", x.shape(), ": lengths must be in 1 … ", T_);
    if (B_ == 0) return;  // nothing to pack
    std::vector<std::int64_t> order(sizes.size()), back(sizes.size());
    const auto size = [&](std::int64_t row) { return sizes[row]; };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return size(a) > size(b); });
    for (std::size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<std::int64_t>(i);
    const std::int64_t N = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    std::vector<std::int64_t> pack[2], unpack[2];
    for (auto& to : unpack) to.assign(static_cast<std::size_t>(B_ * T_), N);
    for (std::int64_t rows = B_, step = 0; rows > 0;) {
      const std::int64_t end = size(order[rows - 1]);
      runs_.push_back({rows, end - step});
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t t = step, row = order[r]; t < end; ++t)
          for (const int backwards : {0, 1}) {
            const std::int64_t from = row * T_ + (backwards ? size(row) - 1 - t : t);
            unpack[backwards][from] = static_cast<std::int64_t>(pack[backwards].size());
            pack[backwards].push_back(from);
          }
      for (step = end; rows > 0 && size(order[rows - 1]) == end;) --rows;
    }
    order_ = tensor(order, {B_});
    back_ = tensor(back, {B_});
    for (const int i : {0, 1}) pack_[i] = tensor(pack[i], {N}), unpack_[i] = tensor(unpack[i], {B_, T_});
  }

  // Runs one direction of a layer on x [B, T, in] from the state h and c. project() makes gates of features; run(gates
  // [rows, steps, …], h, c) returns h of all steps, and the last h and c. Returns the same for [B, T].
  template <class Project, class Run>
  std::array<Tensor, 3> each_run(bool backwards, const Tensor& x, Tensor h, Tensor c, const Project& project,
                                 const Run& run) const {
    if (!order_.defined()) {
      const auto in_order = [&](const Tensor& t) { return backwards ? flip(t, {1}) : t; };
      const auto [y, last_h, last_c] = run(in_order(project(x)), h, c);
      return {in_order(y), last_h, last_c};
    }
    Tensor gates = project(take(reshape(x, {B_ * T_, x.size(2)}), pack_[backwards]));
    // The lengths of the runs depend on the other sequences. So the state keeps float32 from run to run.
    const DType type = promote(gates.dtype(), h.dtype());
    if (type == bfloat16) gates = gates.to(float32);
    h = index_select(h, 0, order_);
    c = index_select(c, 0, order_);
    std::vector<Tensor> outputs, last_h, last_c;
    std::int64_t at = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const auto [rows, steps] = runs_[i];
      const Tensor part = reshape(slice(gates, 0, at, at + rows * steps), {rows, steps, gates.size(1)});
      const auto [y, next_h, next_c] = run(part, slice(h, 0, 0, rows), slice(c, 0, 0, rows));
      outputs.push_back(reshape(y, {rows * steps, y.size(2)}));
      const std::int64_t left = i + 1 < runs_.size() ? runs_[i + 1].rows : 0;
      last_h.push_back(slice(next_h, 0, left, rows));
      last_c.push_back(slice(next_c, 0, left, rows));
      h = next_h, c = next_c;
      at += rows * steps;
    }
    outputs.push_back(zeros({1, h.size(1)}, h.dtype()));  // of padding
    const auto whole = [&](std::vector<Tensor>& parts) {
      std::reverse(parts.begin(), parts.end());
      return index_select(cat(parts), 0, back_).to(type);
    };
    return {take(cat(outputs), unpack_[backwards]).to(type), whole(last_h), whole(last_c)};
  }

 private:
  struct RunOfSteps {
    std::int64_t rows, steps;
  };
  std::int64_t B_, T_;
  std::vector<RunOfSteps> runs_;
  Tensor order_, back_;         // [B]: from the sequences to the longest first, and back
  Tensor pack_[2], unpack_[2];  // [N] of [B T], and [B, T] of N, N for padding; forwards and backwards
};

}  // namespace

// [num_layers * directions, B, H]
Tensor Recurrent::initial(const char* name, const Tensor& given, const Tensor& x) const {
  const Shape shape{static_cast<std::int64_t>(weights_.size()), x.size(0), hidden_size_};
  if (!given.defined()) return zeros(shape, x.dtype());
  check::shape(name_, name, given, shape);
  return given;
}

RecurrentResult Recurrent::run(const Tensor& x, const RecurrentState& state, const Tensor& lengths) const {
  check_last(name_, x, "input_size", input_size_, "weight_ih_l0", weights_[0].weight_ih.original());
  if (x.rank() != 3 || x.size(1) == 0)
    check::fail(name_, "x has shape ", x.shape(), ": it must be [B, T, ", input_size_, "] with T at least 1");
  const std::vector<Tensor> h = unbind(initial("the state's h", state.h, x)),
                            c = unbind(initial("the state's c", state.c, x));
  const Packing packing(name_, x, lengths);
  std::vector<Tensor> last_h, last_c;
  Tensor input = x;  // of a layer
  for (std::size_t i = 0; i < weights_.size(); i += directions()) {
    if (i > 0 && training() && options_.dropout() > 0) input = dropout(input, options_.dropout());
    std::vector<Tensor> outputs;  // of the directions
    for (std::size_t k = i; k < i + directions(); ++k) {
      const Weights& w = weights_[k];
      const auto of_x = [&](const Tensor& t) { return linear(t, w.weight_ih.value(), w.bias_ih.value()); };
      const auto run_of = [&](const Tensor& gates, const Tensor& h, const Tensor& c) {
        const auto [all, end] = steps_(gates, w.weight_hh.value(), w.bias_hh.value(), h, c);
        return std::array<Tensor, 3>{all, squeeze(slice(all, 1, -1, all.size(1)), 1), end};
      };
      const auto [y, after_h, after_c] = packing.each_run(k > i, input, h[k], c[k], of_x, run_of);
      last_h.push_back(after_h);
      last_c.push_back(after_c);
      outputs.push_back(y);
    }
    input = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
  }
  return {input, {stack(last_h), stack(last_c)}};
}

std::string Recurrent::describe() const {
  return joined("input_size=", input_size_, ", hidden_size=", hidden_size_, ", num_layers=", options_.num_layers(),
                ", bias=", options_.bias(), ", dropout=", options_.dropout(),
                ", bidirectional=", options_.bidirectional());
}

void LSTM::fields(Fields& f) { f.self(*this), list(f); }

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent("LSTM", 4, lstm_steps, input_size, hidden_size, options) {}

namespace {
// Of a cell without c: it stays.
template <Tensor (*steps)(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>
std::pair<Tensor, Tensor> without_c(const Tensor& of_x, const Tensor& weight, const Tensor& bias, const Tensor& h,
                                    const Tensor& c) {
  return {steps(of_x, weight, bias, h), c};
}
}  // namespace

void GRU::fields(Fields& f) { f.self(*this), list(f); }

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent("GRU", 3, without_c<gru_steps>, input_size, hidden_size, options) {}

void RNN::fields(Fields& f) { f.self(*this), list(f); }

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent("RNN", 1, without_c<rnn_steps>, input_size, hidden_size, options) {}

}  // namespace fit::nn
