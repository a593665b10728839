// The exclusive or: the smallest thing that one layer cannot learn, and two can.
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;

int main(int argc, char** argv) {
  return example::run(argc, argv, "Learns the exclusive or.", [](example::Example& e) {
    const Tensor x = tensor({{0., 0.}, {0., 1.}, {1., 0.}, {1., 1.}});
    const Tensor y = tensor({{0.}, {1.}, {1.}, {0.}});
    nn::Sequential net(nn::Linear(2, 8), nn::Tanh(), nn::Linear(8, 1), nn::Sigmoid());
    optim::Adam optimizer(net.named_parameters(), 0.05);

    Tensor loss;
    for (int step = 1; step <= 500; ++step) {
      loss = nn::mse_loss(net(x), y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << '\n';
    }

    const NoGrad no_grad;
    std::cout << "xor of\n" << x << "\nis learned as\n" << net(x) << '\n';
    e.claim("all four cases are right", equal(net(x) > 0.5, y > 0.5));
    e.claim("the loss is below 0.01", loss.item() < 0.01);
  });
}
