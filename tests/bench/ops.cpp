// Operations: chains of tiny ones, attention, rows, linear.
#include "fit/ops/ops.hpp"

#include <cmath>
#include <memory>

#include "attention/attend.hpp"
#include "bench.hpp"
#include "fit/attention/attention.hpp"
#include "fit/nn/layers/norm.hpp"

namespace fit::bench {
namespace {

Tensor chain(const Tensor& x, int n) {
  Tensor y = x;
  for (int i = 0; i < n; ++i) y = y + x;
  return y;
}

Workload tiny_ops(bool backward) {
  return {backward ? "tiny_ops" : "tiny_ops_fwd_nograd",
          Limit::none,
          0,
          1.0,
          [backward]() -> std::function<void()> {
            Tensor x = randn({4});
            if (!backward)
              return [x] {
                const NoGrad no_grad;
                chain(x, 1000);
              };
            x.requires_grad_();
            return [x]() mutable {
              x.zero_grad();
              sum(chain(x, 1000)).backward();
            };
          },
          [] {
            Tensor x = randn({4}).requires_grad_();
            const Tensor y = chain(x, 1000);
            sum(y).backward();
            expect_close("the chain", y, x.detach() * 1001, 1e-5);
            expect_close("its gradient", x.grad(), full({4}, 1001), 1e-6);
          }};
}

// `make` makes the options; they leave a fraction of the pairs.
Workload attention(const char* name, std::int64_t B, std::int64_t H, std::int64_t T, std::int64_t D,
                   const std::function<AttentionOptions()>& make, double fraction, bool backward, DType dtype) {
  const auto random = [=](std::int64_t batch, std::int64_t heads) { return randn({batch, heads, T, D}).to(dtype); };
  const double flops = (backward ? 14.0 : 4.0) * static_cast<double>(B * H * T * T * D) * fraction;
  return {name,
          Limit::gemm,
          flops,
          4.0,
          [=]() -> std::function<void()> {
            Tensor q = random(B, H), k = random(B, H), v = random(B, H);
            const AttentionOptions options = make();
            if (!backward)
              return [=] {
                const NoGrad no_grad;
                scaled_dot_product_attention(q, k, v, options);
              };
            const Tensor g = random(B, H);
            for (Tensor* x : {&q, &k, &v}) x->requires_grad_();
            return [=]() mutable {
              for (Tensor* x : {&q, &k, &v}) x->zero_grad();
              scaled_dot_product_attention(q, k, v, options).backward(g);
            };
          },
          [=] {
            // One head of the batch, against the definition in double precision.
            std::vector<Tensor> x, exact;
            for (int i = 0; i < 3; ++i) {
              x.push_back(random(1, 1).requires_grad_());
              exact.push_back(x.back().detach().to(T <= 1024 ? float64 : float32).requires_grad_());
            }
            const Tensor g = random(1, 1);
            const AttentionOptions options = make();
            const double tolerance = dtype == bfloat16 ? 0.02 : 1e-4;
            const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], options);
            auto call = detail::check_call(
                "bench", {heads_first(exact[0]), heads_first(exact[1]), heads_first(exact[2])}, options);
            call.plan = detail::plan_tiles("bench", call.a, call.a.B, call.a.H, options.mask(), call.attends);
            call.plan.apply(call.a);
            const Tensor z = detail::decomposed_attention(call).output;
            expect_close("attention", y.detach(), z.detach(), tolerance);
            if (!backward) return;
            y.backward(g);
            z.backward(g.to(z.dtype()));
            for (std::size_t i = 0; i < 3; ++i) expect_close("its gradient", x[i].grad(), exact[i].grad(), tolerance);
          }};
}

Workload attention(const char* name, std::int64_t B, std::int64_t H, std::int64_t T, std::int64_t D, bool causal,
                   bool backward, DType dtype) {
  return attention(
      name, B, H, T, D, [causal] { return AttentionOptions().causal(causal); }, causal ? 0.5 : 1, backward, dtype);
}

// Boolean (T, T): documents of equal length, one after another.
Tensor documents(std::int64_t T, std::int64_t count) {
  const Tensor document = floor(arange(T).to(float64) / static_cast<double>(T / count));
  return reshape(document, {T, 1}) == reshape(document, {1, T});
}

// T5's 32 buckets of distances in both directions, of a learned table.
AttentionOptions t5_buckets() {
  const Tensor distance = arange(2048) - 1024, far = abs(distance);
  const Tensor log_far = 8 + floor(log(maximum(far, full({}, 1, int64)).to(float64) / 8.0) / std::log(16.0) * 8);
  const Tensor bucket =
      (distance > 0).to(float64) * 16 + where(far < 8, far.to(float64), minimum(log_far, full({}, 15, float64)));
  const Tensor ids = bucket.to(int64), table = randn({8, 32}).requires_grad_();
  return AttentionOptions().score([&](Score s, At at) { return s + table[at.head][ids[at.key - at.query + 1024]]; });
}

// Attention with functions of the scores, and of fewer pairs. attention_variants.py times the rows that have a forward
// pass alone beside PyTorch.
std::vector<Workload> attention_variants() {
  const auto plain = [] { return AttentionOptions(); };
  const auto cap = [] { return AttentionOptions().score([](Score s, At) { return 30 * tanh(s / 30); }); };
  const auto document = [] {
    return AttentionOptions().causal().attends(document_mask_from_lengths(full({8}, 512, int64)));
  };
  const auto window = [] { return AttentionOptions().causal().window(256); };
  const auto mask = [] { return AttentionOptions().causal().mask(documents(4096, 8)); };
  const auto random = [] { return AttentionOptions().mask(rand({1024, 1024}) > 0.3); };
  const double by_document = 0.5 / 8, by_window = 256.0 / 8192;
  const DType f = float32;
  return {
      attention("sdpa_fwd_b1h8t1024d64", 1, 8, 1024, 64, plain, 1, false, f),
      attention("sdpa_fwdbwd_b1h8t1024d64", 1, 8, 1024, 64, plain, 1, true, f),
      attention("sdpa_fwd_b1h8t1024d64_score_cap", 1, 8, 1024, 64, cap, 1, false, f),
      attention("sdpa_fwdbwd_b1h8t1024d64_score_cap", 1, 8, 1024, 64, cap, 1, true, f),
      attention("sdpa_fwd_b1h8t1024d64_score_t5", 1, 8, 1024, 64, t5_buckets, 1, false, f),
      attention("sdpa_fwdbwd_b1h8t1024d64_score_t5", 1, 8, 1024, 64, t5_buckets, 1, true, f),
      attention("sdpa_fwd_b1h8t4096d64_causal_document_mask", 1, 8, 4096, 64, document, by_document, false, f),
      attention("sdpa_fwdbwd_b1h8t4096d64_causal_document_mask", 1, 8, 4096, 64, document, by_document, true, f),
      attention("sdpa_fwd_b1h8t8192d64_causal_window256", 1, 8, 8192, 64, window, by_window, false, f),
      attention("sdpa_fwdbwd_b1h8t8192d64_causal_window256", 1, 8, 8192, 64, window, by_window, true, f),
      attention("sdpa_fwdbwd_b1h8t4096d64_causal_8documents", 1, 8, 4096, 64, mask, by_document, true, f),
      attention("sdpa_fwdbwd_b1h8t1024d64_random_mask", 1, 8, 1024, 64, random, 1, true, f),
  };
}

// A function of x [rows, cols], forward and backward, that can't do with less than `passes` readings and writings of
// x's size.
using Function = std::function<Tensor(const Tensor&)>;
Workload rows(const char* name, std::int64_t n, std::int64_t c, double passes,
              const std::function<Function(std::int64_t rows)>& make, Function plain) {
  return {name,
          Limit::memory,
          passes * 4.0 * static_cast<double>(n * c),
          4.0,
          [=]() -> std::function<void()> {
            Tensor x = randn({n, c}).requires_grad_();
            const Function f = make(n);
            const Tensor g = f(x).numel() == 1 ? Tensor() : randn({n, c});
            return [=]() mutable {
              x.zero_grad();
              f(x).backward(g);
            };
          },
          [=] {
            // A few of the rows, in double precision.
            const Tensor x = randn({8, c}).requires_grad_(), exact = x.detach().to(float64).requires_grad_();
            const Tensor y = make(8)(x), z = plain(exact);
            expect_close(name, y.detach(), z.detach(), 1e-5);
            const Tensor g = y.numel() == 1 ? Tensor() : randn(y.shape());
            y.backward(g);
            z.backward(g.defined() ? g.to(float64) : g);
            expect_close("its gradient", x.grad(), exact.grad(), 1e-5);
          }};
}

Workload linear_layer(const char* name, std::int64_t m, std::int64_t k, std::int64_t n) {
  return {
      name,
      Limit::gemm,
      6.0 * static_cast<double>(m * k * n),
      4.0,
      [=]() -> std::function<void()> {
        Tensor x = randn({m, k}).requires_grad_(), w = randn({n, k}).requires_grad_(), b = randn({n}).requires_grad_();
        const Tensor g = randn({m, n});
        return [=]() mutable {
          for (Tensor* t : {&x, &w, &b}) t->zero_grad();
          linear(x, w, b).backward(g);
        };
      },
      [=] {
        std::vector<Tensor> t{randn({m, k}), randn({n, k}), randn({n})}, exact;
        for (Tensor& x : t) exact.push_back(x.to(float64).requires_grad_()), x.requires_grad_();
        const Tensor g = randn({m, n});
        const Tensor y = linear(t[0], t[1], t[2]);
        const Tensor z = matmul(exact[0], transpose(exact[1])) + exact[2];
        expect_close("linear", y.detach(), z.detach(), 1e-5);
        y.backward(g);
        z.backward(g.to(float64));
        for (std::size_t i = 0; i < 3; ++i) expect_close("its gradient", t[i].grad(), exact[i].grad(), 1e-5);
      }};
}

Tensor targets(std::int64_t n, std::int64_t classes) {
  Generator g(7);
  return randint(0, classes, {n}, g);
}

}  // namespace

std::vector<Workload> attention_workloads(DType dtype) {
  return {
      attention("sdpa_fwdbwd_b1h2t16d16_causal", 1, 2, 16, 16, true, true, dtype),
      attention("sdpa_fwdbwd_b1h2t64d16_causal", 1, 2, 64, 16, true, true, dtype),
      attention("sdpa_fwd_b12h4t64d32_causal", 12, 4, 64, 32, true, false, dtype),
      attention("sdpa_fwdbwd_b12h4t64d32_causal", 12, 4, 64, 32, true, true, dtype),
      attention("sdpa_fwdbwd_b4h12t256d64_causal", 4, 12, 256, 64, true, true, dtype),
      attention("sdpa_fwd_b1h12t1024d64", 1, 12, 1024, 64, false, false, dtype),
      attention("sdpa_fwdbwd_b1h12t1024d64", 1, 12, 1024, 64, false, true, dtype),
      attention("sdpa_fwdbwd_b1h12t1024d64_causal", 1, 12, 1024, 64, true, true, dtype),
      attention("sdpa_fwdbwd_b1h8t4096d64_causal", 1, 8, 4096, 64, true, true, dtype),
      attention("sdpa_fwdbwd_b1h1t8192d64_causal", 1, 1, 8192, 64, true, true, dtype),
  };
}

std::vector<Workload> op_workloads() {
  const auto same = [](const Function& f) { return [f](std::int64_t) { return f; }; };
  const auto gelu_plain = [](const Tensor& x) {
    return 0.5 * x * (1 + tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  const auto softmax_plain = [](const Tensor& x) { return exp(x) / sum(exp(x), -1, keepdims); };
  const auto norm_plain = [](const Tensor& x) {
    const Tensor centred = x - mean(x, -1, keepdims);
    return centred / sqrt(mean(centred * centred, -1, keepdims) + 1e-5);
  };
  const auto entropy_plain = [](const Tensor& x) {
    return mean(log(sum(exp(x), -1)) - squeeze(gather(x, 1, unsqueeze(targets(x.size(0), x.size(1)), 1)), 1));
  };
  std::vector<Workload> all = attention_workloads(float32);
  const std::vector<Workload> others{
      tiny_ops(true),
      tiny_ops(false),
      // Forward reads x and writes y; backward reads y or x, and dy, and writes dx.
      rows("softmax_4096x1024", 4096, 1024, 5, same([](const Tensor& x) { return softmax(x); }), softmax_plain),
      rows(
          "layernorm_4096x768", 4096, 768, 5,
          [](std::int64_t) {
            auto norm = std::make_shared<nn::LayerNorm>(768);
            return [norm](const Tensor& x) { return (*norm)(x); };
          },
          norm_plain),
      rows("gelu_4096x3072", 4096, 3072, 5, same([](const Tensor& x) { return gelu(x, Gelu::tanh); }), gelu_plain),
      // Forward reads x; backward reads it again and writes dx.
      rows(
          "cross_entropy_1024x50257", 1024, 50257, 3,
          [](std::int64_t n) {
            return [ids = targets(n, 50257)](const Tensor& x) { return mean(cross_entropy_rows(x, ids)); };
          },
          entropy_plain),
      linear_layer("linear_768x128x512", 768, 128, 512),
      linear_layer("linear_256x768x3072", 256, 768, 3072),
  };
  for (const std::vector<Workload>& more : {attention_variants(), others})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

Growing growing_attention() {
  return {"attention_fwdbwd_b1h8d64_causal", "T", {256, 512, 1024, 2048, 4096, 8192}, [](std::int64_t T) {
            return attention("attention", 1, 8, T, 64, true, true, float32);
          }};
}

}  // namespace fit::bench
