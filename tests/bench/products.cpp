#include <array>

#include "bench.hpp"
#include "fit/ops.hpp"

namespace fit::bench {

// Products of a batch with a weight matrix, x [M, K] times w [N, K] transposed, in the sizes of transformers from
// layers of a few dozen features up to the head of a large vocabulary.
std::vector<Workload> product_workloads() {
  constexpr std::array<std::array<std::int64_t, 3>, 12> sizes{{{64, 64, 64},
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
                                                               {256, 50257, 768}}};
  std::vector<Workload> all;
  for (const auto& [m, n, k] : sizes)
    all.push_back({"product_" + std::to_string(m) + 'x' + std::to_string(n) + 'x' + std::to_string(k), Limit::gemm,
                   2.0 * static_cast<double>(m * n * k), 0.5,
                   [m = m, n = n, k = k]() -> std::function<void()> {
                     const Tensor x = randn({m, k}), w = randn({n, k});
                     return [=] { matmul(x, Transpose::no, w, Transpose::yes); };
                   },
                   [m = m, n = n, k = k] {
                     const Tensor x = randn({m, k}), w = randn({n, k});
                     expect_close("product", matmul(x, Transpose::no, w, Transpose::yes),
                                  matmul(x.to(float64), transpose(w.to(float64))), 1e-5);
                   }});
  return all;
}

}  // namespace fit::bench
