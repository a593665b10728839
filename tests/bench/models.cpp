// Layers and models, with their optimisers.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "attention/attend.hpp"
#include "bench.hpp"
#include "fit/fit.hpp"

namespace fit::bench {
namespace {

Workload mlp_moons() {
  struct Setup {
    nn::Sequential net{nn::Linear(2, 16), nn::ReLU(), nn::Linear(16, 16), nn::ReLU(), nn::Linear(16, 1)};
    optim::SGD optimizer{net.parameters(), 0.1};
    Tensor x = randn({100, 2}), y = randn({100, 1});
    Tensor step() {
      optimizer.zero_grad();
      Tensor loss = nn::mse_loss(net(x), y);
      loss.backward();
      optimizer.step();
      return loss;
    }
  };
  return {"mlp_moons",
          Limit::none,
          0,
          2.0,
          []() -> std::function<void()> {
            auto s = std::make_shared<Setup>();
            return [s] { s->step(); };
          },
          [] {
            // The same step in double precision, from the operations' definitions.
            Setup s;
            std::vector<Tensor> p;
            for (const Tensor& t : s.net.parameters()) p.push_back(t.detach().to(float64).requires_grad_());
            Tensor h = s.x.to(float64);
            for (std::size_t i = 0; i < p.size(); i += 2) {
              h = matmul(h, transpose(p[i])) + p[i + 1];
              if (i + 2 < p.size()) h = where(h > 0, h, Scalar(0));
            }
            const Tensor d = h - s.y.to(float64), loss = sum(d * d) / 100;
            loss.backward();
            expect_close("the loss", s.step().detach(), loss.detach(), 1e-5);
            const std::vector<Tensor> after = s.net.parameters();
            for (std::size_t i = 0; i < p.size(); ++i)
              expect_close("a parameter", after[i].detach(), p[i].detach() - 0.1 * p[i].grad(), 1e-5);
          }};
}

Workload self_attention() {
  constexpr std::int64_t B = 8, T = 128, C = 512, H = 8;
  const double flops = 3.0 * (8.0 * B * T * C * C + 4.0 * B * T * T * C);
  return {"mha_b8t128c512h8",
          Limit::gemm,
          flops,
          4.0,
          [=]() -> std::function<void()> {
            auto layer = std::make_shared<nn::SelfAttention>(C, H, 0.0);
            Tensor x = randn({B, T, C}).requires_grad_();
            const Tensor g = randn({B, T, C});
            return [=]() mutable {
              x.zero_grad();
              layer->zero_grad();
              layer->forward(x).backward(g);
            };
          },
          [=] {
            nn::SelfAttention layer(C, H, 0.0);
            const auto exact = nn::clone(layer);
            exact->to(float64);
            const Tensor x = randn({1, T, C}).requires_grad_(), z = x.detach().to(float64).requires_grad_();
            const Tensor g = randn({1, T, C});
            const Tensor y = layer.forward(x);
            const nn::MultiHeadAttention& m = exact->multihead_attn;
            const AttentionOptions none;
            auto call = detail::check_call("bench",
                                           {heads_last(m.w_q(z), H), heads_last(m.w_k(z)), heads_last(m.w_v(z))}, none);
            const Tensor w = m.w_o(detail::decomposed_attention(call).output);
            expect_close("self-attention", y.detach(), w.detach(), 1e-4);
            y.backward(g);
            w.backward(g.to(float64));
            expect_close("its gradient", x.grad(), z.grad(), 1e-4);
            const auto a = layer.named_parameters(), b = exact->named_parameters();
            for (std::size_t i = 0; i < a.size(); ++i)
              if (a[i].first.find("w_k.bias") == std::string::npos)  // zero but for rounding
                expect_close(a[i].first.c_str(), a[i].second.grad(), b[i].second.grad(), 1e-4);
          }};
}

nn::GPTOptions gpt_options(std::int64_t layers, std::int64_t heads, std::int64_t C, std::int64_t vocab,
                           std::int64_t T) {
  return nn::GPTOptions().vocab_size(vocab).context_length(T).num_layers(layers).num_heads(heads).d_model(C);
}

enum class Step { after_backward, in_backward };

// One step of AdamW.
Workload gpt(const char* name, std::int64_t layers, std::int64_t heads, std::int64_t C, std::int64_t vocab,
             std::int64_t B, std::int64_t T, Step step = Step::after_backward) {
  struct Setup {
    Setup(const nn::GPTOptions& o, Step step) : model(o), optimizer(model.named_parameters(), 1e-3) {
      if (step == Step::in_backward) fused.emplace(optimizer);
    }
    nn::GPT model;
    optim::AdamW optimizer;
    std::optional<optim::StepInBackward> fused;
    Tensor ids, targets;
  };
  const auto make = [=] {
    auto s = std::make_shared<Setup>(gpt_options(layers, heads, C, vocab, T), step);
    s->ids = randint(0, vocab, {B, T}), s->targets = randint(0, vocab, {B, T});
    return s;
  };
  const double parameters = static_cast<double>(12 * layers * C * C + vocab * C);
  return {name,
          Limit::gemm,
          (6 * parameters + 12.0 * static_cast<double>(layers * C * T)) * static_cast<double>(B * T),
          12.0,
          [=]() -> std::function<void()> {
            const auto s = make();
            return [s] {
              s->optimizer.zero_grad();
              s->model.loss(s->ids, s->targets).backward();
              s->optimizer.step();
            };
          },
          [=] {
            // A smaller model of the same kind in double precision: its attention is the decomposition's to 1e-12.
            nn::GPT model(gpt_options(2, heads, C, 65, T));
            const auto exact = nn::clone(model);
            exact->to(float64);
            const Tensor ids = randint(0, 65, {2, T}), targets = randint(0, 65, {2, T});
            const Tensor loss = model.loss(ids, targets), exact_loss = exact->loss(ids, targets);
            expect_close("the loss", loss.detach(), exact_loss.detach(), 1e-5);
            loss.backward();
            exact_loss.backward();
            const auto a = model.named_parameters(), b = exact->named_parameters();
            for (std::size_t i = 0; i < a.size(); ++i)
              expect_close(a[i].first.c_str(), a[i].second.grad(), b[i].second.grad(), 1e-3);
          }};
}

// The logits of a batch in evaluation.
Workload forward() {
  constexpr std::int64_t layers = 6, C = 384, vocab = 65, B = 8, T = 256;
  const auto parameters = static_cast<double>(12 * layers * C * C + vocab * C);
  return {"gpt_forward_l6h6c384_b8t256",
          Limit::gemm,
          (2 * parameters + 4.0 * static_cast<double>(layers * C * T)) * static_cast<double>(B * T),
          8.0,
          [=]() -> std::function<void()> {
            auto model = std::make_shared<nn::GPT>(gpt_options(layers, 6, C, vocab, T));
            model->eval();
            const Tensor ids = randint(0, vocab, {B, T});
            return [=] {
              const NoGrad no_grad;
              (void)model->forward(ids);
            };
          },
          [=] {
            const NoGrad no_grad;
            const nn::GPT model(gpt_options(2, 6, C, vocab, T));
            const auto exact = nn::clone(model);
            exact->to(float64);
            const Tensor ids = randint(0, vocab, {2, T});
            expect_close("the logits", model(ids), exact->forward(ids), 1e-4);
          }};
}

// For inference.
void prepare(nn::Layer& model, const Weights& weights) {
  model.eval();
  weights.give(model);
}

Limit limit_of(const Weights& weights) { return weights.dtype == bfloat16 ? Limit::gemm_bf16 : Limit::gemm; }

// The last hidden states of a BERT encoder with the sizes of all-MiniLM-L6-v2.
Workload encoder(const Weights& weights, const char* suffix, std::int64_t B, std::int64_t T) {
  constexpr std::int64_t layers = 6, C = 384;
  const auto options = [](std::int64_t num_layers, std::int64_t vocab) {
    return nn::BERTOptions().num_layers(num_layers).vocab_size(vocab).d_model(C).num_heads(12);
  };
  return {"encoder_l6h12c384_b" + std::to_string(B) + "t" + std::to_string(T) + suffix,
          limit_of(weights),
          static_cast<double>(layers * B * T) * static_cast<double>(24 * C * C + 4 * C * T),
          4.0,
          [=]() -> std::function<void()> {
            auto model = std::make_shared<nn::BERT>(options(layers, 30522));
            prepare(*model, weights);
            const Tensor ids = randint(0, 30522, {B, T});
            return [=] {
              const NoGrad no_grad;
              (void)model->forward(ids);
            };
          },
          [=] {
            const NoGrad no_grad;
            nn::BERT model(options(2, 65));
            prepare(model, weights);
            const auto exact = nn::clone(model);
            exact->to(float64);
            const Tensor ids = randint(0, 65, {std::min<std::int64_t>(B, 2), T});
            expect_close("the hidden states", model(ids), exact->forward(ids), weights.tolerance);
          }};
}

constexpr double scales = 4.0 / 32;  // one in float32 for 32 weights

}  // namespace

const Weights Weights::float32{"", 4, 1e-4, [](nn::Layer&) {}};
const Weights Weights::bfloat16{"_bf16", 2, 0.05, [](nn::Layer& m) { m.to(fit::bfloat16); }, fit::bfloat16};
const Weights Weights::int8{"_int8", 1, 1e-4, [](nn::Layer& m) { nn::quantize_(m); }};
const Weights Weights::int8_group32{"_int8_group32", 1 + scales, 1e-4,
                                    [](nn::Layer& m) { nn::quantize_(m, nn::Int8WeightOnlyOptions().group_size(32)); }};
const Weights Weights::int8_activations{
    "_int8_activations", 1, 0.05, [](nn::Layer& m) { nn::quantize_(m, nn::Int8DynamicActivationInt8WeightOptions()); }};
const Weights Weights::int4{"_int4", 0.5 + scales, 1e-4,
                            [](nn::Layer& m) { nn::quantize_(m, nn::Int4WeightOnlyOptions()); }};
const Weights Weights::int4_activations{"_int4_activations", 0.5 + scales, 0.05, [](nn::Layer& m) {
                                          nn::quantize_(m, nn::Int8DynamicActivationInt4WeightOptions());
                                        }};

// Tokens one after the other, each the most likely after those before it, in B rows.
Workload decode(const Weights& weights, std::int64_t B, std::int64_t tokens) {
  constexpr std::int64_t C = 768, vocab = 50257, layers = 12;
  const auto options = gpt_options(layers, 12, C, vocab, tokens + 1);
  const double parameters = static_cast<double>(12 * layers * C * C + vocab * C);
  // Keys and values of all positions so far, on the average.
  const double cached = static_cast<double>(size_of(weights.dtype) * layers * C * B * (tokens + 1));
  const double bytes_per_pass = weights.bytes * parameters + cached;
  return {"decode_l12h12c768_" + (B > 1 ? "b" + std::to_string(B) + "_" : "") + std::to_string(tokens) + "tokens" +
              weights.suffix,
          Limit::read,
          bytes_per_pass * static_cast<double>(tokens),
          8.0,
          [=]() -> std::function<void()> {
            auto model = std::make_shared<nn::GPT>(options);
            prepare(*model, weights);
            return [=] {
              const NoGrad no_grad;
              nn::KVCache cache = model->make_cache(B, tokens);
              Tensor id = zeros({B, 1}, int64);
              for (std::int64_t t = 0; t < tokens; ++t) id = argmax(model->forward_last(id, cache), -1, keepdims);
            };
          },
          [=] {
            // Token by token gives what all at once does.
            nn::GPT model(gpt_options(2, 12, C, 65, 33));
            prepare(model, weights);
            const NoGrad no_grad;
            const Tensor ids = randint(0, 65, {B, 33});
            nn::KVCache cache = model.make_cache(B);
            std::vector<Tensor> logits;
            for (std::int64_t t = 0; t < 33; ++t) logits.push_back(model(slice(ids, 1, t, t + 1), cache));
            expect_close("decoding", cat(logits, 1), model(ids), weights.tolerance);
          },
          bytes_per_pass};
}

// The logits after the last of 512 tokens.
Workload prompt(const Weights& weights) {
  constexpr std::int64_t C = 768, vocab = 50257, layers = 12, T = 512;
  const auto parameters = static_cast<double>(12 * layers * C * C);
  return {std::string("prompt_l12h12c768_512tokens") + weights.suffix,
          limit_of(weights),
          (2 * parameters + 2.0 * static_cast<double>(layers * C * T)) * static_cast<double>(T) + 2.0 * C * vocab,
          4.0,
          [=]() -> std::function<void()> {
            auto model = std::make_shared<nn::GPT>(gpt_options(layers, 12, C, vocab, T));
            prepare(*model, weights);
            const Tensor ids = randint(0, vocab, {1, T});
            return [=] {
              const NoGrad no_grad;
              nn::KVCache cache = model->make_cache(1, T);
              (void)model->forward_last(ids, cache);
            };
          },
          [=] {
            const NoGrad no_grad;
            nn::GPT model(gpt_options(2, 12, C, 65, 33));
            prepare(model, weights);
            const Tensor ids = randint(0, 65, {1, 33});
            nn::KVCache cache = model.make_cache(1);
            expect_close("the last logits", model.forward_last(ids, cache), index(model(ids), {range(), -1}),
                         weights.tolerance);
          }};
}

Workload reproducible(Workload w) {
  w.name += "_reproducible";
  w.make = [make = w.make]() -> std::function<void()> {
    return [step = make()] {
      const Reproducible mode;
      step();
    };
  };
  w.check = [check = w.check] {
    const Reproducible mode;
    check();
  };
  return w;
}

std::vector<Workload> encoders(const Weights& weights, const char* suffix) {
  return {encoder(weights, suffix, 1, 16), encoder(weights, suffix, 1, 128), encoder(weights, suffix, 32, 64),
          encoder(weights, suffix, 32, 128)};
}

std::vector<Workload> model_workloads() {
  std::vector<Workload> all{mlp_moons(),
                            self_attention(),
                            gpt("gpt_char_l4h4c128_b12t64", 4, 4, 128, 65, 12, 64),
                            gpt("gpt_small_l6h6c384_b8t256", 6, 6, 384, 65, 8, 256),
                            gpt("gpt2_124m_b4t64", 12, 12, 768, 50257, 4, 64),
                            gpt("gpt2_124m_b4t64_in_backward", 12, 12, 768, 50257, 4, 64, Step::in_backward),
                            forward(),
                            reproducible(forward()),
                            decode(Weights::float32),
                            reproducible(decode(Weights::float32)),
                            decode(Weights::float32, 8, 32),
                            prompt(Weights::float32)};
  for (Workload& w : encoders(Weights::float32, "")) all.push_back(std::move(w));
  return all;
}

Growing growing_gpt() {
  return {"gpt_char_l4h4c128_t64", "B", {1, 2, 4, 8, 16, 32, 64}, [](std::int64_t B) {
            return gpt("gpt", 4, 4, 128, 65, B, 64);
          }};
}

}  // namespace fit::bench
