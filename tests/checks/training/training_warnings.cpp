// Steps of a training that trains nothing, or alone beside others: what the library says on stderr. With an argument,
// all parameters are frozen after the optimiser has been made.
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/nn/optim/schedule.hpp"
#include "fit/ops/ops.hpp"

using namespace fit;

int main(int argc, char**) {
  nn::Linear layer(2, 1);
  optim::SGD optimizer(layer.named_parameters(), 0.1);
  optim::StepLR schedule(optimizer, 2);
  if (argc > 1) layer.freeze();
  for (int i = 0; i < 3; ++i) optimizer.step(), schedule.step();
  if (argc > 1) return 0;
  sum(layer(ones({1, 2}))).backward();
  optimizer.step();
  schedule.step();
}
