#include <cmath>

#include "fit/attention/linear_attention.hpp"
#include "support/tables/op_table.hpp"

namespace fit::test {

namespace {

using Values = std::vector<Tensor>;
using Options = LinearAttentionOptions;

Values both(const LinearAttentionResult& r) { return {r.output, r.state}; }

// The recurrence of fit/attention/linear_attention.hpp. a: [B, H, T, 1 or D]; beta: [B, H, T] or undefined.
Values by_hand(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_a, const Tensor& beta, Tensor S) {
  const auto steps = [](const Tensor& x) { return x.defined() ? unbind(x, 2) : Values(); };
  const Values qs = steps(q), ks = steps(k), vs = steps(v), factors = steps(log_a), rates = steps(beta);
  Values outputs;
  for (std::size_t t = 0; t < qs.size(); ++t) {
    const Tensor k_t = unsqueeze(ks[t], -1), q_t = unsqueeze(qs[t], -2);
    if (log_a.defined()) S = unsqueeze(exp(factors[t]), -1) * S;
    Tensor u = unsqueeze(vs[t], -2);
    if (beta.defined()) u = unsqueeze(unsqueeze(rates[t], -1), -1) * (u - matmul(transpose(k_t), S));
    S = S + matmul(k_t, u);
    outputs.push_back(reshape(matmul(q_t, S), vs[t].shape()) / std::sqrt(static_cast<double>(q.size(3))));
  }
  return {stack(outputs, 2), S};
}
Tensor no_state(const Values& in) {
  return zeros({in[0].size(0), in[0].size(1), in[0].size(3), in[2].size(3)}, in[0].dtype());
}

// Keys whose delta rule is stable, logarithms of factors below 1, rates in 0 … 1.
Tensor small(const Tensor& k) { return k * 0.25; }
Tensor exact(const Tensor& x) { return x.dtype() == bfloat16 ? x.to(float32) : x; }
Tensor log_factor(const Tensor& x) { return x.defined() ? log_sigmoid(exact(x)) : x; }
Tensor steps_of(const Tensor& x) { return x.defined() ? unsqueeze(log_factor(x), -1) : x; }
Tensor rate(const Tensor& x) { return x.defined() ? sigmoid(exact(x)) : x; }

}  // namespace

static std::vector<OpRow> linear_attention_rows() {
  const char* const op = "linear_attention";
  const std::string product = "a product of q, k and v overflows";
  return {
      OpRow(op,
            [](const auto& in) { return both(linear_attention(in[0], in[1], in[2], Options().initial_state(in[3]))); })
          .equals([](const auto& in) {
            return by_hand(in[0], in[1], in[2], {}, {}, in[3].defined() ? in[3] : no_state(in));
          })
          .on({{1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 3}, {1, 2, 2, 3}})
          .on({{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}})
          .on({{1, 1, 18, 1}, {1, 1, 18, 1}, {1, 1, 18, 2}, {1, 1, 1, 2}})
          .on({{0, 1, 3, 2}, {0, 1, 3, 2}, {0, 1, 3, 3}, {0, 1, 2, 3}})
          .large({{2, 3, 130, 16}, {2, 3, 130, 16}, {2, 3, 130, 24}, {2, 3, 16, 24}})
          .optional(3)
          .except("huge numbers", product)
          .except("bfloat16", "the state is float32")
          .within(1e-4)
          .bad("q is [2, 3], k is [2, 3], v is [2, 3]: q and k must be (B, H, T, D), v (B, H, T, Dv)",
               [] {
                 linear_attention(zeros({2, 3}), zeros({2, 3}), zeros({2, 3}));
               })
          .bad("k is [1, 2, 3, 5]",
               [] {
                 linear_attention(zeros({1, 2, 3, 4}), zeros({1, 2, 3, 5}), zeros({1, 2, 3, 4}));
               })
          .bad("v is [1, 2, 4, 4]",
               [] {
                 linear_attention(zeros({1, 2, 3, 4}), zeros({1, 2, 3, 4}), zeros({1, 2, 4, 4}));
               })
          .bad("both must have one type",
               [] {
                 linear_attention(zeros({1, 2, 3, 4}), zeros({1, 2, 3, 4}, float64), zeros({1, 2, 3, 4}));
               })
          .bad("decay is [3], q (B, H, T, D) is [1, 2, 3, 4]: decay must be (H), (B, H, T) or (B, H, T, D)",
               [] {
                 const Tensor x = zeros({1, 2, 3, 4});
                 linear_attention(x, x, x, Options().decay(zeros({3})));
               })
          .bad("decay is int64",
               [] {
                 const Tensor x = zeros({1, 2, 3, 4});
                 linear_attention(x, x, x, Options().decay(zeros({2}, int64)));
               })
          .bad("beta has shape [2]: it must be [1, 2, 3]",
               [] {
                 const Tensor x = zeros({1, 2, 3, 4});
                 linear_attention(x, x, x, Options().beta(zeros({2})));
               })
          .bad("initial_state has shape [2, 4]: it must be [1, 2, 4, 4]",
               [] {
                 const Tensor x = zeros({1, 2, 3, 4});
                 linear_attention(x, x, x, Options().initial_state(zeros({2, 4})));
               })
          .bad("normalize is set, and beta is [1, 2, 3]",
               [] {
                 const Tensor x = zeros({1, 2, 3, 4});
                 linear_attention(x, x, x, Options().normalize().beta(zeros({1, 2, 3})));
               })
          .bad("scale is inf: it must be finite in float32",
               [] {
                 const Tensor x = zeros({1, 2, 3, 4});
                 linear_attention(x, x, x, Options().scale(INFINITY));
               })
          .bad("after the feature map",
               [] {
                 const Tensor x = zeros({1, 2, 3, 4});
                 linear_attention(x, x, x, Options().feature_map([](const Tensor& y) { return sum(y, {-1}); }));
               }),
      OpRow(op, "with elu + 1, normalised, scaled",
            [](const auto& in) {
              const auto o = Options().feature_map(elu_plus_one).normalize().scale(0.3);
              return linear_attention(in[0], in[1], in[2], o).output;
            })
          .equals([](const auto& in) {
            // The same as attention with these weights.
            const Tensor w = tril(matmul(elu(in[0]) + 1, transpose(elu(in[1]) + 1)));
            return Values{matmul(w, in[2]) / sum(w, {-1}, KeepDims::yes)};
          })
          .on({{1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 3}})
          .on({{1, 1, 1, 2}, {1, 1, 1, 2}, {1, 1, 1, 1}})
          .large({{1, 2, 70, 8}, {1, 2, 70, 8}, {1, 2, 70, 9}})
          .except("huge numbers", "a sum of weights that underflow is 0"),
      OpRow(op, "with a factor for each head",
            [](const auto& in) {
              return linear_attention(in[0], in[1], in[2], Options().decay(log_factor(in[3]))).output;
            })
          .equals([](const auto& in) {
            Tensor a = log_factor(in[3]);
            if (a.defined()) a = broadcast_to(reshape(a, {1, a.numel(), 1, 1}), in[0].shape());
            return Values{by_hand(in[0], in[1], in[2], a, {}, no_state(in))[0]};
          })
          .except("huge numbers", product)
          .on({{1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 3}, {2}})
          .large({{2, 2, 70, 8}, {2, 2, 70, 8}, {2, 2, 70, 9}, {2}})
          .optional(3)
          .within(1e-4),
      OpRow(op, "with a factor for each step",
            [](const auto& in) {
              return both(
                  linear_attention(in[0], in[1], in[2], Options().decay(log_factor(in[3])).initial_state(in[4])));
            })
          .equals([](const auto& in) { return by_hand(in[0], in[1], in[2], steps_of(in[3]), {}, in[4]); })
          .except("huge numbers", product)
          .on({{1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 3}, {1, 2, 3}, {1, 2, 2, 3}})
          .on({{1, 1, 19, 1}, {1, 1, 19, 1}, {1, 1, 19, 1}, {1, 1, 19}, {1, 1, 1, 1}})
          .large({{2, 3, 130, 16}, {2, 3, 130, 16}, {2, 3, 130, 24}, {2, 3, 130}, {2, 3, 16, 24}})
          .optional(3, 4)
          .within(1e-4)
          .except("bfloat16", "the state is float32"),
      OpRow(op, "with a factor for each feature",
            [](const auto& in) {
              return both(
                  linear_attention(in[0], in[1], in[2], Options().decay(log_factor(in[3])).initial_state(in[4])));
            })
          .equals([](const auto& in) { return by_hand(in[0], in[1], in[2], log_factor(in[3]), {}, in[4]); })
          .except("huge numbers", product)
          .on({{1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 3}, {1, 2, 3, 2}, {1, 2, 2, 3}})
          .on({{1, 1, 35, 1}, {1, 1, 35, 1}, {1, 1, 35, 1}, {1, 1, 35, 1}, {1, 1, 1, 1}})
          .large({{2, 3, 130, 16}, {2, 3, 130, 16}, {2, 3, 130, 24}, {2, 3, 130, 16}, {2, 3, 16, 24}})
          .optional(3, 4)
          .except("bfloat16", "the state is float32"),
      OpRow(op, "the delta rule",
            [](const auto& in) {
              const auto o = Options().beta(rate(in[3])).initial_state(in[4]);
              return both(linear_attention(in[0], small(in[1]), in[2], o));
            })
          .equals([](const auto& in) { return by_hand(in[0], small(in[1]), in[2], {}, rate(in[3]), in[4]); })
          .on({{1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 3}, {1, 2, 3}, {1, 2, 2, 3}})
          .on({{1, 1, 19, 1}, {1, 1, 19, 1}, {1, 1, 19, 1}, {1, 1, 19}, {1, 1, 1, 1}})
          .large({{2, 2, 80, 8}, {2, 2, 80, 8}, {2, 2, 80, 9}, {2, 2, 80}, {2, 2, 8, 9}})
          .optional(3, 4)
          .except("bfloat16", "the state is float32")
          .except("huge numbers", product)
          .within(1e-4),
      OpRow(op, "the gated delta rule",
            [](const auto& in) {
              const auto o = Options().decay(log_factor(in[3])).beta(rate(in[4]));
              return linear_attention(in[0], small(in[1]), in[2], o).output;
            })
          .equals([](const auto& in) {
            return Values{by_hand(in[0], small(in[1]), in[2], steps_of(in[3]), rate(in[4]), no_state(in))[0]};
          })
          .on({{1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 3}, {1, 2, 3}, {1, 2, 3}})
          .large({{2, 3, 130, 16}, {2, 3, 130, 16}, {2, 3, 130, 24}, {2, 3, 130}, {2, 3, 130}})
          .optional(3, 4)
          .except("huge numbers", product),
      OpRow(op, "the delta rule, with a factor for each feature",
            [](const auto& in) {
              const auto o = Options().decay(log_factor(in[3])).beta(rate(in[4]));
              return linear_attention(in[0], small(in[1]), in[2], o).output;
            })
          .equals([](const auto& in) {
            return Values{by_hand(in[0], small(in[1]), in[2], log_factor(in[3]), rate(in[4]), no_state(in))[0]};
          })
          .on({{1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 3}, {1, 2, 3, 2}, {1, 2, 3}})
          .large({{1, 2, 100, 8}, {1, 2, 100, 8}, {1, 2, 100, 9}, {1, 2, 100, 8}, {1, 2, 100}})
          .optional(3, 4)
          .except("huge numbers", product),
      OpRow("elu_plus_one", [](const auto& in) { return elu_plus_one(in[0]); })
          .from(domain::nonzero)
          .on({{3}})
          .on({{}}),
  };
}
static const RegisterOps linear_attention_table(linear_attention_rows);

}  // namespace fit::test
