// A classifier of three layers for two half moons that no straight line separates, and a map of its decisions.
#include <cmath>
#include <cstdio>
#include <iostream>

#include "fit/fit.hpp"
#include "fit/tensor/xtensor.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

// n points on each of two interleaved half circles, with noise: points [2n, 2], classes [2n].
std::pair<Tensor, Tensor> half_moons(std::int64_t n) {
  const xt::xarray<float> angle = xt::linspace(0.F, std::acos(-1.F), static_cast<std::size_t>(n));
  const auto x = xt::concatenate(xt::xtuple(xt::cos(angle), 1 - xt::cos(angle)));
  const auto y = xt::concatenate(xt::xtuple(xt::sin(angle), 0.5F - xt::sin(angle)));
  const Tensor points = stack({from_xtensor(x), from_xtensor(y)}, 1) + 0.12 * randn({2 * n, 2});
  return {points, from_xtensor(xt::arange(2 * n) / n)};
}

double accuracy(const nn::Sequential& net, const Tensor& points, const Tensor& classes) {
  const NoGrad no_grad;
  return mean((argmax(net(points), -1) == classes).to(float32)).item();
}

struct Map {
  Tensor probability;  // of the second class, [rows, columns]; the first row is the top
  plot::Options options;
};

std::vector<std::string> with_one_digit(const Tensor& numbers) {
  std::vector<std::string> labels;
  for (const float v : numbers.data<float>()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", v);
    labels.emplace_back(text);
  }
  return labels;
}

Map decision_map(const nn::Sequential& net, std::int64_t rows, std::int64_t columns) {
  const NoGrad no_grad;
  const Tensor east = linspace(-1.5, 2.5, columns), north = linspace(1.5, -1, rows);
  const Tensor x = broadcast_to(east, {rows, columns});
  const Tensor y = broadcast_to(north.unsqueeze(1), {rows, columns});
  const Tensor grid = stack({x.flatten(), y.flatten()}, 1);
  const auto options = plot::Options()
                           .title("Probability of the lower moon")
                           .x(with_one_digit(east))
                           .y(with_one_digit(north))
                           .colormap(plot::Colormap::rdbu)
                           .vmin(0)
                           .vmax(1);
  return {softmax(net(grid))[{range(), 1}].reshape({rows, columns}), options};
}

}  // namespace

int main(int argc, char** argv) {
  const auto train = [](example::Example& e) {
    const auto [x, y] = half_moons(500);
    const auto [test_x, test_y] = half_moons(200);
    nn::Sequential net{nn::Linear(2, 32), nn::ReLU(), nn::Linear(32, 32), nn::ReLU(), nn::Linear(32, 2)};
    dist::DataParallel parallel(net);
    optim::Adam optimizer(net.named_parameters(), 0.01);
    plot::TrainingPage& page = e.follow("Two half moons", 20, net);

    for (int epoch = 1; epoch <= 20; ++epoch) {
      const Tensor order = randperm(x.size(0));
      double total = 0;
      for (const Tensor& batch : split(order, 50)) {
        const Tensor some = parallel.rows(batch);
        optimizer.zero_grad();
        total += parallel.backward(nn::cross_entropy(net(index_select(x, 0, some)), index_select(y, 0, some))) / 20;
        optimizer.step();
      }
      page.add({{"step", epoch}, {"loss", total}, {"test accuracy", accuracy(net, test_x, test_y)}});
      if (epoch % 5 == 0)
        std::cout << "epoch " << epoch << "  loss " << total << "  test accuracy " << accuracy(net, test_x, test_y)
                  << '\n';
    }

    e.save_weights();
    const Map coarse = decision_map(net, 16, 32), fine = decision_map(net, 101, 161);
    plot::print_heatmap(std::cout, coarse.probability, coarse.options);
    e.picture("moons",
              plot::side_by_side(
                  {plot::heatmap(fine.probability, fine.options),
                   page.loss(plot::LineOptions().title("Training").xlabel("Epoch").ylabel("Cross-entropy (nats)"))}));
    e.claim("at least 97 % of new points are told apart", accuracy(net, test_x, test_y) >= 0.97);
  };
  return example::run(argc, argv, "Learns to tell two half moons apart.", train, {example::bf16});
}
