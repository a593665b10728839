// gdb stops in stop() and prints the variables of its caller.
#include "fit/nn/linear.hpp"
#include "fit/ops.hpp"

using namespace fit;

[[gnu::noinline]] void stop() { asm volatile(""); }

int main() {
  const Tensor x = tensor({{1., 2.5}, {3., 4.}}), ids = arange(9), half = tensor({0.5, -2.}, bfloat16), none;
  const Tensor mask = tensor({true, false});
  const nn::Parameter weight(x);
  const Shape shape{2, 3, 4};
  stop();
  return x.rank() + ids.rank() + half.rank() + mask.rank() + weight.rank() + shape.rank() == 10 ? 0 : 1;
}
