// A program as a user of the library writes it: what it prints is checked by the scripts that build it.
#include <fit/fit.hpp>
#include <iostream>

int main() {
  fit::Tensor w = fit::tensor({{1., 2.}, {3., 4.}}).requires_grad_();
  fit::sum(fit::matmul(w, w)).backward();
  std::cout << "gradient " << w.grad().sum().item() << "\n";  // sum over i, k of (column sum i + row sum k): 40
}
