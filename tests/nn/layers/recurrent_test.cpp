// LSTM, GRU and RNN beside PyTorch's (tests/golden/training.py, packed.py).
#include "fit/nn/layers/recurrent.hpp"

#include "fit/io/npz.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

namespace fit::test::recurrent_test {
using Catch::Contains;
using fit::test::max_difference;
using fit::test::same_bits;
using nn::RecurrentOptions;

namespace {

// Outputs, last states and all gradients, in double to 1e-12 and in float to 1e-5.
template <class L>
void agrees(const StateDict& all, const std::string& name, const RecurrentOptions& options) {
  const StateDict golden = under(all, "recurrent/" + name + '/');
  for (const DType dtype : {float64, float32}) {
    INFO(name << ' ' << dtype);
    const double most = dtype == float64 ? 1e-12 : 1e-5;
    const auto leaf = [&](const char* of) {
      return contains(golden, of) ? at(golden, of).to(dtype).clone().requires_grad_() : Tensor();
    };
    L layer(3, 4, options);
    layer.to(dtype);
    layer.load_state_dict(under(golden, "state/"));
    const Tensor x = leaf("x"), h = leaf("h0"), c = leaf("c0");
    const nn::RecurrentResult result =
        contains(golden, "lengths") ? layer(x, {h, c}, at(golden, "lengths")) : layer(x, {h, c});
    Tensor total = zeros({}, dtype);
    const auto check = [&](const std::string& what, const Tensor& ours) {
      INFO(what);
      if (!contains(golden, what)) return;
      CHECK(max_difference(ours.detach().to(float64), at(golden, what)) < most);
      total = total + sum(ours * at(golden, "d_" + what).to(dtype));
    };
    check("output", result.output), check("h", result.state.h), check("c", result.state.c);
    total.backward();
    StateDict leaves = layer.named_parameters();
    leaves.emplace_back("x", x), leaves.emplace_back("h0", h);
    if (c.defined()) leaves.emplace_back("c0", c);
    for (const auto& [of, p] : leaves) {
      INFO(of);
      CHECK(max_difference(p.grad().to(float64), at(golden, "grad/" + of)) < 20 * most);
    }
  }
}

}  // namespace

TEST_CASE("recurrent layers agree with PyTorch, whose weights they load by name", "[golden]") {
  const auto deep = RecurrentOptions().num_layers(3).bias(false);
  const auto both = RecurrentOptions().num_layers(2).bidirectional();
  for (const char* file : {FIT_GOLDEN_DIR "/training.npz", FIT_GOLDEN_DIR "/packed.npz"}) {
    INFO(file);
    const StateDict all = load_npz(file);
    each_isa([&] {
      agrees<nn::LSTM>(all, "lstm_plain", {});
      agrees<nn::GRU>(all, "gru_plain", {});
      agrees<nn::LSTM>(all, "lstm_deep", deep);
      agrees<nn::GRU>(all, "gru_deep", deep);
      agrees<nn::LSTM>(all, "lstm_both", both);
      agrees<nn::GRU>(all, "gru_both", both);
      if (under(all, "recurrent/rnn_plain/").empty()) return;
      agrees<nn::RNN>(all, "rnn_plain", {});
      agrees<nn::RNN>(all, "rnn_deep", deep);
      agrees<nn::RNN>(all, "rnn_both", both);
    });
  }
}

TEST_CASE("a recurrent layer does not read the padding behind a sequence") {
  const nn::LSTM lstm(3, 4, RecurrentOptions().num_layers(2).bidirectional());
  const Tensor x = randn({3, 6, 3}), lengths = tensor({2, 6, 4});
  Tensor dirty = x.clone();
  index_put_(dirty, {0, range(2)}, full({}, std::nan("")));
  index_put_(dirty, {2, range(4)}, full({}, std::nan("")));
  dirty.requires_grad_();
  const nn::RecurrentResult all = lstm(dirty, {}, lengths);
  sum(all.output).backward();
  CHECK(sum(abs(slice(all.output[0], 0, 2, 6))).item() == 0);
  for (const Tensor& p : lstm.parameters()) CHECK(std::isfinite(sum(p.grad()).item()));
  CHECK(sum(abs(slice(dirty.grad()[0], 0, 2, 6))).item() == 0);
  for (const std::int64_t row : {0, 1, 2}) {
    INFO("row " << row);
    const std::int64_t n = lengths.data<std::int64_t>()[row];
    const nn::RecurrentResult one = lstm(unsqueeze(slice(x[row], 0, 0, n), 0), {});
    CHECK(max_difference(slice(all.output[row], 0, 0, n), one.output[0]) < 1e-6);
    CHECK(max_difference(index(all.state.h, {range(), row}), index(one.state.h, {range(), 0})) < 1e-6);
    CHECK(max_difference(index(all.state.c, {range(), row}), index(one.state.c, {range(), 0})) < 1e-6);
  }
  CHECK(same_bits(lstm(x, {}, full({3}, 6, int64)).output, lstm(x, {}, {}).output));
}

TEST_CASE("a recurrent layer goes on from its state, and drops only between layers") {
  manual_seed(3);
  nn::LSTM lstm(3, 4, RecurrentOptions().num_layers(2).dropout(0.5));
  const Tensor x = randn({2, 6, 3});
  CHECK_FALSE(same_bits(lstm(x), lstm(x)));
  lstm.eval();
  CHECK(same_bits(lstm(x), lstm(x)));
  const nn::RecurrentResult first = lstm(slice(x, 1, 0, 2), {}), second = lstm(slice(x, 1, 2, 6), first.state);
  CHECK(max_difference(cat({first.output, second.output}, 1), lstm(x)) < 1e-6);
  CHECK(nn::clone(lstm)->str() == lstm.str());
  CHECK_THAT(lstm.str(), Contains("num_layers=2, bias=true, dropout=0.5, bidirectional=false"));
}

TEST_CASE("a recurrent layer takes an empty batch, with lengths and without") {
  const nn::LSTM lstm(3, 4);
  const nn::GRU gru(3, 4, RecurrentOptions().bidirectional());
  for (const Tensor& lengths : {Tensor(), zeros({0}, int64)}) {
    CHECK(lstm(zeros({0, 5, 3}), {}, lengths).output.shape() == Shape{0, 5, 4});
    CHECK(gru(zeros({0, 5, 3}), {}, lengths).output.shape() == Shape{0, 5, 8});
  }
}

TEST_CASE("recurrent layers refuse bad arguments") {
  CHECK_THROWS_WITH(nn::LSTM(3, 2, RecurrentOptions().num_layers(0)), "[LSTM] num_layers is 0: it must be positive");
  CHECK_THROWS_WITH(nn::GRU(3, 2, RecurrentOptions().dropout(1.5)),
                    "[GRU] dropout is 1.5: it must be a probability, 0 … 1");
  CHECK_THROWS_WITH(nn::LSTM(3, 2, RecurrentOptions().dropout(0.5)),
                    Contains("[LSTM] dropout is 0.5 with one layer: it lies between layers") &&
                        Contains("put a Dropout after this layer"));
  const nn::LSTM lstm(3, 2, RecurrentOptions().bidirectional());
  CHECK_THROWS_WITH(lstm(ones({2, 4, 4})),
                    "[LSTM] x is [2, 4, 4], weight_ih_l0 is [8, 3]: the last of x must be input_size = 3");
  CHECK_THROWS_WITH(lstm(ones({2, 0, 3})), "[LSTM] x has shape [2, 0, 3]: it must be [B, T, 3] with T at least 1");
  CHECK_THROWS_WITH(lstm(ones({2, 4, 3}), {ones({1, 2, 2}), {}}),
                    "[LSTM] the state's h has shape [1, 2, 2]: it must be [2, 2, 2]");
  const Tensor x = ones({2, 4, 3});
  CHECK_THROWS_WITH(lstm(x, {}, tensor({1, 2, 3})),
                    "[LSTM] lengths is int64 [3], x has shape [2, 4, 3]: lengths must be int64 [2]");
  CHECK_THROWS_WITH(lstm(x, {}, tensor({1., 2.})),
                    "[LSTM] lengths is float32 [2], x has shape [2, 4, 3]: lengths must be int64 [2]");
  for (const std::int64_t n : {0, 5})
    CHECK_THROWS_WITH(lstm(x, {}, tensor(std::vector<std::int64_t>{1, n}, {2})),
                      "[LSTM] a length is " + std::to_string(n) + ", x has shape [2, 4, 3]: lengths must be in 1 … 4");
}

}  // namespace fit::test::recurrent_test
