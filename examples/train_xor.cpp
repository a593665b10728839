// The exclusive or: the smallest problem that needs two layers.
#include <fit/fit.hpp>
#include <iostream>

using namespace fit;

int main() {
  const Tensor x = tensor({{0., 0.}, {0., 1.}, {1., 0.}, {1., 1.}});
  const Tensor y = tensor({{0.}, {1.}, {1.}, {0.}});
  nn::Sequential net(nn::Linear(2, 8), nn::Tanh(), nn::Linear(8, 1), nn::Sigmoid());
  optim::Adam optimizer(net.named_parameters(), 0.05);

  for (int step = 1; step <= 500; ++step) {
    const Tensor loss = nn::mse_loss(net(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << '\n';
  }

  const Tensor answer = net(x);
  std::cout << "xor of\n" << x << "\nis learned as\n" << answer << '\n';
  return equal(answer > 0.5, y > 0.5) ? 0 : 1;
}
