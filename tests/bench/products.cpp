#include <algorithm>
#include <array>
#include <memory>

#include "bench.hpp"
#include "fit/ops/ops.hpp"
#include "matmul/gemm_bf16.hpp"

namespace fit::bench {
namespace {

// y [M, N] = x [M, K] times w [N, K] transposed, of bfloat16.
struct Bf16Product {
  Tensor x, w;
  std::vector<BFloat16> narrow_x, narrow_w, y;
  kernels::GemmParams<BFloat16> p;

  Bf16Product(std::int64_t m, std::int64_t n, std::int64_t k)
      : x(randn({m, k})), w(randn({n, k})), y(static_cast<std::size_t>(m * n)) {
    p.m = m;
    p.n = p.ldc = n;
    p.k = p.lda = p.ldb = k;
    p.transpose_b = true;
    for (const float v : x.data<float>()) narrow_x.emplace_back(v);
    for (const float v : w.data<float>()) narrow_w.emplace_back(v);
  }
  void run() { kernels::gemm_parallel(p, narrow_x.data(), narrow_w.data(), y.data()); }
};

}  // namespace

// Products of a batch with a weight matrix, x [M, K] times w [N, K] transposed, in the sizes of transformers from
// layers of a few dozen features up to the head of a large vocabulary, and squares.
std::vector<Workload> product_workloads() {
  constexpr std::array<std::array<std::int64_t, 3>, 16> sizes{{{64, 64, 64},
                                                               {256, 256, 64},
                                                               {16, 768, 768},
                                                               {768, 128, 128},
                                                               {768, 384, 128},
                                                               {768, 512, 128},
                                                               {256, 768, 768},
                                                               {256, 3072, 768},
                                                               {256, 768, 3072},
                                                               {2048, 1536, 384},
                                                               {1024, 1024, 1024},
                                                               {256, 50257, 768},
                                                               {128, 128, 128},
                                                               {256, 256, 256},
                                                               {512, 512, 512},
                                                               {2048, 2048, 2048}}};
  std::vector<Workload> all;
  for (const DType dtype : {float32, float64})
    for (const auto& [m, n, k] : sizes)
      all.push_back({"product_" + std::to_string(m) + 'x' + std::to_string(n) + 'x' + std::to_string(k) +
                         (dtype == float64 ? "_f64" : ""),
                     dtype == float64 ? Limit::none : Limit::gemm, 2.0 * static_cast<double>(m * n * k), 0.5,
                     [m = m, n = n, k = k, dtype]() -> std::function<void()> {
                       const Tensor x = randn({m, k}, dtype), w = randn({n, k}, dtype);
                       return [=] { matmul(x, Transpose::no, w, Transpose::yes); };
                     },
                     [m = m, n = n, k = k, dtype] {
                       const Tensor x = randn({m, k}, dtype), w = randn({n, k}, dtype);
                       expect_close("product", matmul(x, Transpose::no, w, Transpose::yes),
                                    matmul(x.to(float64), transpose(w.to(float64))), 1e-5);
                     }});
  for (const auto& [m, n, k] : sizes)
    all.push_back({"product_" + std::to_string(m) + 'x' + std::to_string(n) + 'x' + std::to_string(k) + "_bf16",
                   Limit::gemm_bf16, 2.0 * static_cast<double>(m * n * k), 0.5,
                   [m = m, n = n, k = k]() -> std::function<void()> {
                     const auto product = std::make_shared<Bf16Product>(m, n, k);
                     return [=] { product->run(); };
                   },
                   [m = m, n = n, k = k] {
                     Bf16Product product(m, n, k);
                     product.run();
                     Tensor y = zeros({m, n});
                     std::copy(product.y.begin(), product.y.end(), y.fresh<float>());
                     expect_close("product of bfloat16", y, matmul(product.x, Transpose::no, product.w, Transpose::yes),
                                  1e-2);
                   }});
  return all;
}

}  // namespace fit::bench
