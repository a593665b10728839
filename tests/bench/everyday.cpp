// What programs do beside attention and dense layers: recurrent layers, orders, look-ups, small transposes, loaders,
// files, an optimiser's pass over large weights, second derivatives. everyday.py times the same in PyTorch.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>

#include "bench.hpp"
#include "fit/fit.hpp"

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
            const auto o = data::LoaderOptions().batch_size(128).prefetch(prefetch);
            auto loader = std::make_shared<data::DataLoader>(
                data::TensorDataset({randn({examples, size}), zeros({examples}, int64)}), o);
            return [loader] {
              for (const data::Batch& batch : *loader) sum(batch[0]).item();
            };
          },
          [=] {
            const auto o = data::LoaderOptions().batch_size(128).prefetch(prefetch);
            data::DataLoader loader(data::TensorDataset({arange(0., 1000., 1.), arange(1000)}), o);
            double total = 0;
            for (const data::Batch& batch : loader) total += sum(batch[0]).item();
            if (total != 499500) throw Error("the loader's sum is wrong");
          }};
}

// Opens a file of 50 tensors of a million elements each; `used`: and adds up all elements.
Workload read_file(const char* name, bool used) {
  const auto sum_of = [](const std::string& path) {
    double total = 0;
    for (const auto& [tensor_name, x] : load_safetensors(path).tensors) total += sum(x).item();
    return total;
  };
  const auto file = [](std::int64_t elements) {
    const auto path = std::filesystem::temp_directory_path() / ("fit_bench_" + std::to_string(getpid()));
    StateDict tensors;
    for (int i = 0; i < 50; ++i) tensors.emplace_back(std::to_string(i), ones({elements}));
    save_safetensors(path.string(), tensors);
    return std::shared_ptr<const std::string>(new std::string(path.string()), [](const std::string* p) {
      std::filesystem::remove(*p);
      delete p;
    });
  };
  return {name,
          used ? Limit::read : Limit::none,
          used ? 200e6 : 0,
          2.0,
          [=]() -> std::function<void()> {
            return [=, path = file(1000000)] { used ? (void)sum_of(*path) : (void)load_safetensors(*path); };
          },
          [=] {
            if (sum_of(*file(20000)) != 1e6) throw Error("the file's sum is wrong");
          },
          200e6};
}

// 30 weights of a million elements each: 28 bytes are moved for each element.
Workload adamw() {
  struct Setup {
    explicit Setup(std::int64_t elements) {
      for (int i = 0; i < 30; ++i) {
        weights.push_back(randn({elements}).requires_grad_());
        sum(weights.back() * randn({elements})).backward();
      }
    }
    std::vector<Tensor> weights;
  };
  return {"adamw_30m",
          Limit::memory,
          28 * 30e6,
          2.0,
          []() -> std::function<void()> {
            auto s = std::make_shared<Setup>(1000000);
            auto optimizer = std::make_shared<optim::AdamW>(s->weights, 1e-3);
            return [s, optimizer] { optimizer->step(); };  // a weight that only the optimiser held would be refused
          },
          [] {
            // After the first step each element has moved by the rate against its gradient's sign, and decayed.
            Setup s(100);
            const Tensor before = s.weights[0].detach().clone(), g = s.weights[0].grad();
            optim::AdamW(s.weights, 1e-3).step();
            expect_close("AdamW", s.weights[0].detach(), before * (1 - 1e-3 * 1e-2) - 1e-3 * g / (abs(g) + 1e-8), 1e-5);
          }};
}

// Muon's step for the matrices of six blocks of 384 features: five iterations.
Workload muon(const char* name, bool bfloat16) {
  struct Setup {
    Setup(std::int64_t layers, std::int64_t C) {
      for (std::int64_t i = 0; i < layers; ++i)
        for (const Shape& s : {Shape{3 * C, C}, Shape{C, C}, Shape{4 * C, C}, Shape{C, 4 * C}}) {
          weights.push_back(randn(s).requires_grad_());
          sum(weights.back() * randn(s)).backward();
        }
    }
    std::vector<Tensor> weights;
  };
  // An iteration needs half of X X' and of its square, and the product with X: for [m, n], m (m n + m m + 2 m n).
  constexpr double C = 384, flops = 6 * 5 * C * C * C * ((3 + 1 + 6) + (1 + 1 + 2) + 2 * (4 + 1 + 8));
  return {name,
          bfloat16 ? Limit::gemm_bf16 : Limit::gemm,
          flops,
          2.0,
          [=]() -> std::function<void()> {
            auto s = std::make_shared<Setup>(6, 384);
            auto optimizer =
                std::make_shared<optim::Muon>(s->weights, optim::MuonOptions().lr(1e-3).bfloat16(bfloat16));
            return [s, optimizer] { optimizer->step(); };
          },
          [=] {
            // A step of one iteration.
            Setup s(1, 40);
            const Tensor before = s.weights[0].detach().clone(), g = s.weights[0].grad();
            optim::Muon(s.weights, optim::MuonOptions().lr(1).weight_decay(0).ns_steps(1).bfloat16(bfloat16)).step();
            const Tensor x = g / norm(g), square = matmul(transpose(x), x);
            const Tensor factor = 3.4445 * eye(40) - 4.775 * square + 2.0315 * matmul(square, square);
            expect_close(name, s.weights[0].detach(), before - std::sqrt(3.0) * matmul(x, factor), 3e-2);
          }};
}

// A step of Adam for a small network whose slopes are to add up to 1: second derivatives.
Workload slopes() {
  struct Setup {
    nn::Sequential net{nn::Linear(2, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(), nn::Linear(64, 1)};
    optim::Adam optimizer{net.parameters(), 1e-3};
    Tensor x = rand({1024, 2});

    Tensor slope() {
      const Tensor at = x.clone().requires_grad_();
      return sum(grad({sum(net(at))}, {at}, {}, create_graph)[0], 1);
    }
  };
  return {"slopes_b1024h64",
          Limit::none,
          0,
          2.0,
          []() -> std::function<void()> {
            auto s = std::make_shared<Setup>();
            return [s] {
              s->optimizer.zero_grad();
              mean(square(s->slope() - 1)).backward();
              s->optimizer.step();
            };
          },
          [] {
            Setup s;
            s.net.to(float64), s.x = s.x.to(float64);
            const double step = 1e-5;
            const Tensor up = s.net(s.x + step), down = s.net(s.x - step);
            expect_close("the slope", s.slope().detach(), squeeze((up - down).detach() / (2 * step), -1), 1e-6);
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
      read_file("safetensors_200mb", false),
      read_file("safetensors_200mb_sum", true),
      adamw(),
      muon("muon_10m", false),
      muon("muon_10m_bf16", true),
      slopes(),
  };
}

}  // namespace fit::bench
