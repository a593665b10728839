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
    dist::DataParallel parallel(net);
    optim::Adam optimizer(net.named_parameters(), 0.05);

    plot::TrainingPage& page = e.follow("The exclusive or", 500);
    double loss = 0;
    for (int step = 1; step <= 500; ++step) {
      optimizer.zero_grad();
      loss = parallel.backward(nn::mse_loss(net(parallel.rows(x)), parallel.rows(y)));
      optimizer.step();
      page.add({{"step", step}, {"loss", loss}});
      if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss << '\n';
    }

    const NoGrad no_grad;
    std::cout << "xor of\n" << x << "\nis learned as\n" << net(x) << '\n';
    // What it says between the four cases: they are the corners.
    const Tensor side = linspace(0, 1, 25);
    const Tensor across = broadcast_to(side, {25, 25}), up = transpose(flip(across, 1));
    plot::Options look("What it says of x and y", {}, {}, "x, from 0 to 1", "y, from 1 to 0");
    look.vmin = 0, look.vmax = 1, look.colormap = plot::Colormap::rdbu;
    e.picture("xor", plot::heatmap(net(stack({across.flatten(), up.flatten()}, 1)).reshape({25, 25}), look));
    e.claim("all four cases are right", equal(net(x) > 0.5, y > 0.5));
    e.claim("the loss is below 0.01", loss < 0.01);
  });
}
