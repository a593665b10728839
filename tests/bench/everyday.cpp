// What programs do beside attention and dense layers: recurrent layers, orders, look-ups, small transposes, files,
// loaders.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>

#include "bench.hpp"
#include "fit/data.hpp"
#include "fit/nn/recurrent.hpp"
#include "fit/ops.hpp"
#include "fit/safetensors.hpp"

namespace fit::bench {
namespace {

template <class L>
Workload recurrent(const char* name, int gates, std::int64_t B, std::int64_t T, std::int64_t I, std::int64_t H,
                   bool backward) {
  const double flops = (backward ? 3.0 : 1.0) * 2.0 * static_cast<double>(B * T * gates * H * (I + H));
  return {name,
          Limit::gemm,
          flops,
          3.0,
          [=]() -> std::function<void()> {
            auto layer = std::make_shared<L>(I, H);
            const Tensor x = randn({B, T, I}), g = randn({B, T, H});
            if (!backward)
              return [=] {
                const NoGrad no_grad;
                layer->forward(x);
              };
            return [=] {
              layer->zero_grad();
              layer->forward(x).backward(g);
            };
          },
          [=] {
            L layer(I, H);
            const auto exact = nn::clone(layer);
            exact->to(float64);
            const Tensor x = randn({2, 5, I}), y = layer(x), z = (*exact)(x.to(float64));
            expect_close(name, y.detach(), z.detach(), 1e-4);
            sum(y * y).backward();
            sum(z * z).backward();
            const auto a = layer.parameters(), b = exact->parameters();
            for (std::size_t i = 0; i < a.size(); ++i) expect_close(name, a[i].grad(), b[i].grad(), 1e-4);
          }};
}

// An operation without a gradient, and a check of what it gives.
Workload operation(const char* name, double bytes, const std::function<Tensor()>& make,
                   const std::function<Tensor(const Tensor&)>& f, const std::function<bool(const Tensor&)>& right) {
  return {name,
          bytes > 0 ? Limit::memory : Limit::none,
          bytes,
          1.0,
          [=]() -> std::function<void()> {
            const Tensor x = make();
            return [=] { f(x); };
          },
          [=] {
            if (!right(make())) throw Error(std::string(name) + " is wrong");
          }};
}

bool in_order(const Tensor& x, const Tensor& ids) {
  return equal(gather(x, -1, ids), sort(x.to(float64)).first.to(float32));
}

// Batches of 128 pictures, one epoch, with the sum of each.
Workload loader(const char* name, int prefetch) {
  constexpr std::int64_t examples = 8192, size = 28 * 28;
  return {name,
          Limit::none,
          0,
          2.0,
          [=]() -> std::function<void()> {
            data::LoaderOptions o;
            o.batch_size = 128, o.prefetch = prefetch;
            auto loader = std::make_shared<data::DataLoader>(
                data::TensorDataset({randn({examples, size}), zeros({examples}, int64)}), o);
            return [loader] {
              for (const data::Batch& batch : *loader) sum(batch[0]).item();
            };
          },
          [=] {
            data::LoaderOptions o;
            o.batch_size = 128, o.prefetch = prefetch;
            data::DataLoader loader(data::TensorDataset({arange(0, 1000, 1), arange(1000)}), o);
            double total = 0;
            for (const data::Batch& batch : loader) total += sum(batch[0]).item();
            if (total != 499500) throw Error("the loader's sum is wrong");
          }};
}

}  // namespace

std::vector<Workload> everyday_workloads() {
  const auto normal = [](const Shape& shape) { return [shape] { return randn(shape); }; };
  const Tensor ids = (rand({4096, 1024}) * 1024).to(int64);
  return {
      recurrent<nn::LSTM>("lstm_fwd_b32t64i128h256", 4, 32, 64, 128, 256, false),
      recurrent<nn::LSTM>("lstm_fwdbwd_b32t64i128h256", 4, 32, 64, 128, 256, true),
      recurrent<nn::LSTM>("lstm_fwd_b8t32i64h64", 4, 8, 32, 64, 64, false),
      recurrent<nn::LSTM>("lstm_fwdbwd_b8t32i64h64", 4, 8, 32, 64, 64, true),
      recurrent<nn::GRU>("gru_fwd_b32t64i128h256", 3, 32, 64, 128, 256, false),
      recurrent<nn::GRU>("gru_fwdbwd_b32t64i128h256", 3, 32, 64, 128, 256, true),
      operation(
          "gather_4096x1024", 4096.0 * 1024 * 16, normal({4096, 1024}),
          [ids](const Tensor& x) { return gather(x, 1, ids); },
          [ids](const Tensor& x) { return equal(gather(x, 1, ids), take_along(x.to(float64), 1, ids).to(float32)); }),
      operation(
          "sort_1024x1000", 0, normal({1024, 1000}), [](const Tensor& x) { return sort(x).first; },
          [](const Tensor& x) { return in_order(x, sort(x).second); }),
      operation(
          "sort_200000", 0, normal({200000}), [](const Tensor& x) { return sort(x).first; },
          [](const Tensor& x) { return in_order(x, sort(x).second); }),
      operation(
          "topk50_64x50257", 64.0 * 50257 * 4, normal({64, 50257}), [](const Tensor& x) { return topk(x, 50).first; },
          [](const Tensor& x) { return equal(topk(x, 50).first, slice(sort(x, -1, descending).first, 1, 0, 50)); }),
      operation(
          "cumsum_4096x1024", 4096.0 * 1024 * 12, normal({4096, 1024}), [](const Tensor& x) { return cumsum(x, 1); },
          [](const Tensor& x) {
            expect_close("cumsum", cumsum(x, 1), cumsum(x.to(float64), 1), 1e-5);
            return true;
          }),
      operation(
          "transpose_10x4x5", 0, normal({10, 4, 5}), [](const Tensor& x) { return transpose(x, 1, 2); },
          [](const Tensor& x) { return equal(transpose(transpose(x, 1, 2), 1, 2), x); }),
      operation(
          "linear_20x768x768", 0, normal({20, 768}), [w = randn({768, 768})](const Tensor& x) { return linear(x, w); },
          [w = randn({768, 768})](const Tensor& x) {
            expect_close("linear", linear(x, w), linear(x.to(float64), w.to(float64)), 1e-4);
            return true;
          }),
      loader("loader_8192x784", 0),
      loader("loader_8192x784_prefetch", 2),
  };
}

}  // namespace fit::bench
