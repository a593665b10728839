// A program of tensors and attention alone.
#include <fit/core.hpp>
#include <iostream>

using namespace fit;

int main() {
  Tensor w = tensor({{1., 2.}, {3., 4.}}).requires_grad_();
  sum(matmul(w, w)).backward();
  const Tensor x = randn({1, 2, 3, 4});
  std::cout << "gradient " << w.grad().sum().item() << ", attention "
            << scaled_dot_product_attention(x, x, x, AttentionOptions().causal()).shape() << "\n";
}
