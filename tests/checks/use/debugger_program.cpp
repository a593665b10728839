// A debugger stops in stop() and prints the variables of its caller.
#include <fit/fit.hpp>

using namespace fit;

struct Net : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return out(relu(hidden(x))); }
  FIT_FIELDS(hidden, out)
  nn::Linear hidden{2, 3, false}, out{3, 1, false};
};

[[gnu::noinline]] void stop() { asm volatile(""); }

int main() {
  const Tensor x = tensor({{1., 2.5}, {3., 4.}}), ids = arange(9), half = tensor({0.5, -2.}, bfloat16), none;
  const Tensor mask = tensor({true, false});
  const nn::Parameter weight(x);
  const Shape shape{2, 3, 4};
  Net net;
  nn::vector_to_parameters(arange(9).to(float32), net.parameters());
  const nn::Layer& layer = net;
  stop();
  return x.rank() + ids.rank() + half.rank() + mask.rank() + weight.rank() + shape.rank() == 10 && !layer.hooked() ? 0
                                                                                                                   : 1;
}
