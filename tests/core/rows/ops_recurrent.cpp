#include "fit/ops/recurrent.hpp"
#include "support/tables/op_table.hpp"

namespace fit::test {

// Weights of a size as layers have them: with larger ones the steps are chaotic, and rounding grows from one to the
// next.
constexpr double size_of_weights = 0.125;  // exact in bfloat16, too

static Tensor of_h(const Tensor& h, const Tensor& weight, const Tensor& bias) {
  const Tensor s = matmul(h, transpose(weight * size_of_weights, 0, 1));
  return bias.defined() ? s + bias : s;
}

static std::vector<Tensor> lstm_by_hand(const std::vector<Tensor>& in) {
  Tensor h = in[3], c = in[4];
  std::vector<Tensor> all;
  for (const Tensor& x : unbind(in[0], 1)) {
    const std::vector<Tensor> gate = chunk(x + of_h(h, in[1], in[2]), 4, -1);
    c = sigmoid(gate[1]) * c + sigmoid(gate[0]) * tanh(gate[2]);
    h = sigmoid(gate[3]) * tanh(c);
    all.push_back(h);
  }
  return {stack(all, 1), c};
}

static std::vector<Tensor> gru_by_hand(const std::vector<Tensor>& in) {
  Tensor h = in[3];
  std::vector<Tensor> all;
  for (const Tensor& now : unbind(in[0], 1)) {
    const std::vector<Tensor> x = chunk(now, 3, -1), s = chunk(of_h(h, in[1], in[2]), 3, -1);
    const Tensor r = sigmoid(x[0] + s[0]), z = sigmoid(x[1] + s[1]), n = tanh(x[2] + r * s[2]);
    h = (1 - z) * n + z * h;
    all.push_back(h);
  }
  return {stack(all, 1)};
}

static std::vector<Tensor> rnn_by_hand(const std::vector<Tensor>& in) {
  std::vector<Tensor> all{in[3]};
  for (const Tensor& x : unbind(in[0], 1)) all.push_back(tanh(x + of_h(all.back(), in[1], in[2])));
  return {stack({all.begin() + 1, all.end()}, 1)};
}

static std::vector<OpRow> recurrent_ops() {
  const auto lstm = [](const auto& in) {
    const auto [h, c] = lstm_steps(in[0], in[1] * size_of_weights, in[2], in[3], in[4]);
    return std::vector<Tensor>{h, c};
  };
  return {
      OpRow("lstm_steps", lstm)
          .optional(2)
          .equals(lstm_by_hand)
          .on({{2, 3, 8}, {8, 2}, {8}, {2, 2}, {2, 2}})
          .on({{1, 1, 4}, {4, 1}, {4}, {1, 1}, {1, 1}})
          .on({{0, 2, 4}, {4, 1}, {4}, {0, 1}, {0, 1}})
          .large({{53, 3, 280}, {280, 70}, {280}, {53, 70}, {53, 70}})
          .bad("x has shape [2, 3, 8], h [2, 3]: x must be [2, T, 12] with T at least 1, 4 gates of the size of h",
               [] {
                 lstm_steps(zeros({2, 3, 8}), zeros({8, 2}), {}, zeros({2, 3}), zeros({2, 3}));
               })
          .bad("x has shape [2, 0, 8]",
               [] {
                 lstm_steps(zeros({2, 0, 8}), zeros({8, 2}), {}, zeros({2, 2}), zeros({2, 2}));
               })
          .bad("weight has shape [2, 8]: it must be [8, 2]",
               [] {
                 lstm_steps(zeros({2, 3, 8}), zeros({2, 8}), {}, zeros({2, 2}), zeros({2, 2}));
               })
          .bad("bias has shape [4]: it must be [8]",
               [] {
                 lstm_steps(zeros({2, 3, 8}), zeros({8, 2}), zeros({4}), zeros({2, 2}), zeros({2, 2}));
               })
          .bad("c has shape [1, 2]: it must be [2, 2]",
               [] {
                 lstm_steps(zeros({2, 3, 8}), zeros({8, 2}), {}, zeros({2, 2}), zeros({1, 2}));
               })
          .bad("h has shape [2]: it must be [B, H]",
               [] {
                 lstm_steps(zeros({2, 3, 8}), zeros({8, 2}), {}, zeros({2}), zeros({2}));
               })
          .bad("x is int64",
               [] {
                 lstm_steps(zeros({2, 3, 8}, int64), zeros({8, 2}), {}, zeros({2, 2}), zeros({2, 2}));
               }),
      OpRow("gru_steps", [](const auto& in) { return gru_steps(in[0], in[1] * size_of_weights, in[2], in[3]); })
          .optional(2)
          .equals(gru_by_hand)
          .on({{2, 3, 6}, {6, 2}, {6}, {2, 2}})
          .on({{1, 1, 3}, {3, 1}, {3}, {1, 1}})
          .on({{0, 2, 3}, {3, 1}, {3}, {0, 1}})
          .large({{53, 3, 210}, {210, 70}, {210}, {53, 70}})
          .bad("x has shape [2, 3, 8], h [2, 2]: x must be [2, T, 6] with T at least 1, 3 gates of the size of h",
               [] {
                 gru_steps(zeros({2, 3, 8}), zeros({6, 2}), {}, zeros({2, 2}));
               })
          .bad("weight has shape [8, 2]: it must be [6, 2]",
               [] {
                 gru_steps(zeros({2, 3, 6}), zeros({8, 2}), {}, zeros({2, 2}));
               }),
      OpRow("rnn_steps", [](const auto& in) { return rnn_steps(in[0], in[1] * size_of_weights, in[2], in[3]); })
          .optional(2)
          .equals(rnn_by_hand)
          .on({{2, 3, 2}, {2, 2}, {2}, {2, 2}})
          .on({{1, 1, 1}, {1, 1}, {1}, {1, 1}})
          .on({{0, 2, 1}, {1, 1}, {1}, {0, 1}})
          .large({{53, 3, 70}, {70, 70}, {70}, {53, 70}})
          .bad("x has shape [2, 3, 4], h [2, 2]: x must be [2, T, 2] with T at least 1, 1 gate of the size of h",
               [] {
                 rnn_steps(zeros({2, 3, 4}), zeros({2, 2}), {}, zeros({2, 2}));
               })
          .bad("weight has shape [4, 2]: it must be [2, 2]",
               [] {
                 rnn_steps(zeros({2, 3, 2}), zeros({4, 2}), {}, zeros({2, 2}));
               }),
  };
}
static const RegisterOps recurrent_rows(recurrent_ops);

}  // namespace fit::test
