// The exclusive or: the smallest problem that needs two layers. Its data are arrays of xtensor.
#include <fit/fit.hpp>
#include <fit/tensor/xtensor.hpp>
#include <iostream>

using namespace fit;

int main() {
  const xt::xarray<float> bits{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  const auto first = xt::view(bits, xt::all(), xt::range(0, 1)), second = xt::view(bits, xt::all(), xt::range(1, 2));
  const Tensor x = from_xtensor(bits), y = from_xtensor(xt::abs(first - second));
  nn::Sequential net{nn::Linear(2, 8), nn::Tanh(), nn::Linear(8, 1), nn::Sigmoid()};
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
