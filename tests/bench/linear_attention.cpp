// Linear attention in growing lengths, and the gated delta rule.
#include "fit/attention/linear_attention.hpp"

#include "bench.hpp"
#include "fit/ops/ops.hpp"
#include "linear_attention/kernel/reference.hpp"

namespace fit::bench {
namespace {

struct Operands {
  Tensor q, k, v, decay, beta;
  Operands(std::int64_t H, std::int64_t T, std::int64_t D)
      : q(randn({1, H, T, D})),
        k(normalize(randn({1, H, T, D}))),
        v(randn({1, H, T, D})),
        decay(log_sigmoid(randn({1, H, T}) + 3)),
        beta(sigmoid(randn({1, H, T}))) {}
  LinearAttentionOptions options(bool delta) const {
    return LinearAttentionOptions().decay(decay).beta(delta ? beta : Tensor());
  }
};

Workload linear_attention_row(const char* name, std::int64_t T, bool delta) {
  constexpr std::int64_t H = 8, D = 64;
  // Of a step, forward and backward: 9 products with the state or with half a chunk, 19 with the delta rule.
  const double flops = (delta ? 19.0 : 10.0) * 2.0 * static_cast<double>(H * T * D * D);
  return {name,
          Limit::gemm,
          flops,
          4.0,
          [=]() -> std::function<void()> {
            Operands x(H, T, D);
            for (Tensor* t : {&x.q, &x.k, &x.v, &x.decay, &x.beta}) t->requires_grad_();
            return [=, g = randn(x.v.shape())]() mutable {
              for (Tensor* t : {&x.q, &x.k, &x.v, &x.decay, &x.beta}) t->zero_grad();
              linear_attention(x.q, x.k, x.v, x.options(delta)).output.backward(g);
            };
          },
          [=] {
            // One head of the first steps, against the same in double precision, which is against the recurrence.
            Operands x(1, 300, D);
            std::vector<Tensor> in{x.q, x.k, x.v, x.decay, x.beta}, exact;
            for (Tensor& t : in) exact.push_back(t.to(float64).detach().clone().requires_grad_()), t.requires_grad_();
            const Tensor g = randn(x.v.shape());
            const auto run = [&](const std::vector<Tensor>& t) {
              const auto o = LinearAttentionOptions().decay(t[3]).beta(delta ? t[4] : Tensor());
              const Tensor y = linear_attention(t[0], t[1], t[2], o).output;
              y.backward(g.to(y.dtype()));
              return y.detach();
            };
            const Tensor y = run(in), z = run(exact);
            kernels::LinearAttention<double> a;
            a.heads = 1, a.steps = 300, a.D = a.Dv = D, a.scale = 0.125;
            const auto data = [&](std::size_t i) { return exact[i].data<double>().data(); };
            a.q = data(0), a.k = data(1), a.v = data(2), a.decay = data(3), a.beta = delta ? data(4) : nullptr;
            Tensor plain = Tensor::empty(y.shape(), float64);
            std::vector<double> state(D * D);
            kernels::reference::linear_attention_forward<double>(a, plain.fresh<double>(), state.data());
            expect_close("linear attention", y, plain, 1e-5);
            expect_close("in double precision", z, plain, 1e-12);
            for (std::size_t i = 0; i < (delta ? 5 : 4); ++i)
              expect_close("its gradient", in[i].grad(), exact[i].grad(), 1e-4);
          }};
}

}  // namespace

std::vector<Workload> linear_attention_workloads() {
  return {linear_attention_row("linear_attention_h8t1024d64", 1024, false),
          linear_attention_row("linear_attention_h8t4096d64", 4096, false),
          linear_attention_row("linear_attention_h8t16384d64", 16384, false),
          linear_attention_row("gated_delta_rule_h8t2048d64", 2048, true)};
}

}  // namespace fit::bench
