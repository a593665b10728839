#include "support/tables/op_table.hpp"

namespace fit::test {

static Tensor plain_softmax(const Tensor& x, int axis) {
  const Tensor e = exp(x - max(x, axis, keepdims));
  return e / sum(e, axis, keepdims);
}

static Tensor plain_norm(const Tensor& centred, const Tensor& weight, double eps) {
  return centred / sqrt(mean(centred * centred, -1, keepdims) + eps) * weight;
}

// A shift of all elements changes nothing. Numbers in eighths, so that x and the shifted x are exact.
static OpRow::Sides shifted(Tensor (*f)(const Tensor& x)) {
  return [f](const Tensor& x) {
    const Tensor eighths = round(clamp(masked_fill(x, isnan(x), 1), -4, 4) * 8) / 8;
    return std::pair(f(eighths), f(eighths + 8));
  };
}

// The gradients of a row sum to 0. For the seed of the largest element alone, its gradient is positive and all others
// are negative, so their sum must agree with it to the last digits, however small they are.
static OpRow::Sides gradients_sum_to_0(Tensor (*f)(const Tensor& x)) {
  return [f](const Tensor& x) {
    const Tensor leaf = clamp(masked_fill(x, isnan(x), 1), -30, 30).requires_grad_();
    const Tensor largest = one_hot(argmax(leaf.detach(), 1), 4, x.dtype());
    const Tensor g = grad({f(leaf)}, {leaf}, {largest})[0].to(float64), chosen = largest.to(float64);
    return std::pair(sum(g * chosen, 1).to(x.dtype()), -sum(g * (1 - chosen), 1).to(x.dtype()));
  };
}

static Tensor softmax_of(const Tensor& x) { return softmax(x, 1); }
static Tensor log_softmax_of(const Tensor& x) { return log_softmax(x, 1); }

static std::vector<OpRow> row_ops() {
  const char* const no_scale = "rows of one number have no scale";
  return {
      OpRow("softmax", [](const auto& in) { return softmax(in[0]); })
          .holds("f(x + c) = f(x)", shifted(softmax_of))
          .holds("gradients sum to 0", gradients_sum_to_0(softmax_of), 16)
          .on({{2, 5}})
          .on({{3, 1}})
          .on({{17}})
          .on({{}})
          .on({{0, 3}})
          .on({{2, 0}})
          .large({{300, 33}})
          .bad("axis 2 is out of range for shape [2, 3]",
               [] {
                 softmax(zeros({2, 3}), 2);
               })
          .bad("x is int64",
               [] {
                 softmax(zeros({2, 3}, int64));
               }),
      OpRow("softmax", "along an inner axis", [](const auto& in) { return softmax(in[0], -2); })
          .equals([](const auto& in) { return plain_softmax(in[0], -2); })
          .on({{2, 5, 3}})
          .on({{3, 1, 4}})
          .on({{4, 19}})
          .large({{3, 33, 300}}),
      OpRow("log_softmax", [](const auto& in) { return log_softmax(in[0]); })
          .holds("f(x + c) = f(x)", shifted(log_softmax_of))
          .holds("gradients sum to 0", gradients_sum_to_0(log_softmax_of), 16)
          .on({{2, 5}})
          .on({{3, 1}})
          .on({{17}})
          .on({{}})
          .on({{0, 3}})
          .large({{300, 33}})
          .bad("axis 2 is out of range for shape [2, 3]",
               [] {
                 log_softmax(zeros({2, 3}), 2);
               }),
      OpRow("log_softmax", "along an inner axis", [](const auto& in) { return log_softmax(in[0], 0); })
          .equals([](const auto& in) { return log(plain_softmax(in[0], 0)); })
          .on({{5, 3}})
          .on({{2, 3, 2}})
          .large({{33, 3, 300}}),
      OpRow("layer_norm", [](const auto& in) { return layer_norm(in[0], in[1], in[2]); })
          .optional(1, 2)
          .equals([](const auto& in) { return plain_norm(in[0] - mean(in[0], -1, keepdims), in[1], 1e-5) + in[2]; })
          .within(1e-4)
          .on({{2, 5}, {5}, {5}})
          .on({{2, 2, 3}, {3}, {3}})
          .on({{19}, {19}, {19}})
          .on({{0, 3}, {3}, {3}})
          .on({{2, 0}, {0}, {0}})
          .large({{700, 33}, {33}, {33}})
          .bad("weight has shape [2]: it must be [3]",
               [] {
                 layer_norm(zeros({2, 3}), zeros({2}));
               })
          .bad("x is a scalar", [] { layer_norm(zeros({})); })
          .bad("x is int64", [] { layer_norm(zeros({3}, int64)); })
          .bad("eps is -1", [] { layer_norm(zeros({3}), {}, {}, -1); }),
      OpRow("rms_norm", [](const auto& in) { return rms_norm(in[0], in[1]); })
          .optional(1)
          .equals([](const auto& in) { return plain_norm(in[0], in[1], 1e-6); })
          .within(1e-4)
          .on({{2, 5}, {5}})
          .on({{2, 2, 3}, {3}})
          .on({{3, 1}, {1}})
          .on({{0, 3}, {3}})
          .large({{700, 33}, {33}})
          .bad("weight has shape [2]: it must be [3]",
               [] {
                 rms_norm(zeros({2, 3}), zeros({2}));
               })
          .bad("x is a scalar", [] { rms_norm(zeros({})); }),
      OpRow("layer_norm", "without eps", [](const auto& in) { return layer_norm(in[0], in[1], in[2], 0); })
          .within(1e-4)
          .on({{2, 5}, {5}, {5}})
          .on({{19}, {19}, {19}})
          .optional(1, 2)
          .homogeneous(0)
          .except("zeros", no_scale)
          .except("equal numbers", no_scale),
      OpRow("rms_norm", "without eps", [](const auto& in) { return rms_norm(in[0], in[1], 0); })
          .from(domain::nonzero, domain::real)
          .on({{2, 5}, {5}})
          .on({{3, 2}, {2}})
          .optional(1)
          .homogeneous(0)
          .except("zeros", no_scale),
      OpRow("cross_entropy_rows",
            [](const auto& in) {
              std::vector<std::int64_t> ids;
              for (std::int64_t i = 0; i < in[0].size(0); ++i) ids.push_back(i == 1 ? -100 : i % in[0].size(1));
              return cross_entropy_rows(in[0], tensor(ids, {in[0].size(0)}));
            })
          .on({{3, 5}})
          .on({{2, 1}})
          .on({{1, 19}})
          .on({{0, 3}})
          .large({{300, 129}})
          .bad("targets[1] is 3: it must be in 0 … 2, or ignore_index (-100)",
               [] {
                 cross_entropy_rows(zeros({2, 3}), tensor({0, 3}));
               })
          .bad("targets[0] is -1",
               [] {
                 cross_entropy_rows(zeros({1, 3}), tensor({-1}));
               })
          .bad("logits has shape [3]: it must be [N, C]", [] { cross_entropy_rows(zeros({3}), tensor({0})); })
          .bad("targets has shape [1]: it must be [2]",
               [] {
                 cross_entropy_rows(zeros({2, 3}), tensor({0}));
               })
          .bad("targets is float32: it must be int64",
               [] {
                 cross_entropy_rows(zeros({2, 3}), zeros({2}));
               }),
      OpRow("dropout",
            [](const auto& in) {
              Generator g(3);
              return dropout(in[0], 0.4, g);
            })
          .on({{2, 5}})
          .on({{}})
          .on({{0}})
          .large({{257, 129}})
          .bad("p is 1.5: it must be in 0 … 1", [] { dropout(zeros({2}), 1.5); })
          .bad("p is -0.1: it must be in 0 … 1", [] { dropout(zeros({2}), -0.1); })
          .bad("x is int64", [] { dropout(zeros({2}, int64), 0.5); }),
      OpRow("glu", [](const auto& in) { return glu(in[0]); })
          .equals([](const auto& in) {
            const std::vector<Tensor> half = chunk(in[0], 2, -1);
            return half[0] * sigmoid(half[1]);
          })
          .on({{2, 6}})
          .on({{3, 1, 2}})
          .on({{2, 0}})
          .large({{257, 130}})
          .bad("axis 1 of shape [2, 3] has an odd size",
               [] {
                 glu(zeros({2, 3}));
               })
          .bad("x is int64", [] { glu(zeros({2}, int64)); }),
      OpRow("glu", "along the first axis", [](const auto& in) { return glu(in[0], 0); }).on({{4, 3}}),
      OpRow("gumbel_softmax",
            [](const auto& in) {
              Generator g(3);
              return gumbel_softmax(in[0], GumbelSoftmaxOptions().tau(0.7).axis(0), g);
            })
          .equals([](const auto& in) {
            Generator g(3);
            const Tensor u = rand(in[0].shape(), float32, g).to(in[0].dtype());
            return softmax((in[0] - log(-log(u))) / 0.7, 0);
          })
          .on({{4, 3}})
          .on({{5}})
          .large({{33, 129}})
          .bad("tau is 0: it must be positive", [] { gumbel_softmax(zeros({2}), GumbelSoftmaxOptions().tau(0)); })
          .bad("axis 1 is out of range", [] { gumbel_softmax(zeros({2}), GumbelSoftmaxOptions().axis(1)); }),
  };
}
static const RegisterOps rows(row_ops);

}  // namespace fit::test
