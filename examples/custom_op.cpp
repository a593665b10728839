// A custom operation outside the library: check, forward and adjoint in one function, and a check of its gradient.
#include <cmath>
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

// x / (1 + |x|) elementwise: [...] -> [...] (Bergstra et al. 2009).
Tensor squash(const Tensor& x) {
  if (!is_floating(x.dtype()))
    throw Error(std::string("[squash] x is ") + name_of(x.dtype()) + ": it must be float32 or float64");
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const auto compute = [&](const auto* in, auto* out) {
    for (std::int64_t i = 0; i < x.numel(); ++i) out[i] = in[i] / (1 + std::abs(in[i]));
  };
  if (x.dtype() == float32)
    compute(x.data<float>().data(), y.fresh<float>());
  else
    compute(x.data<double>().data(), y.fresh<double>());
  // dx = dy (1 - |y|)^2. The adjoint consists of operations, so it has a derivative, too. Only y must be kept.
  return record("squash", {x}, y, keep::output, [](Backward& b) { b.give(0, b.dy() * pow(1 - abs(b.y()), 2)); });
}

// The same with an error in the adjoint.
Tensor wrong_squash(const Tensor& x) {
  return record("wrong_squash", {x}, squash(x.detach()), keep::output,
                [](Backward& b) { b.give(0, b.dy() * (1 - abs(b.y()))); });
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, "An operation of one's own, with its gradient.", [](example::Example& e) {
    e.section("squash(x) = x / (1 + |x|)");
    const Tensor x = tensor({-3.0, -1.0, 0.5, 1.0}).requires_grad_();
    const Tensor y = squash(x);
    sum(y).backward();
    std::cout << "x  " << x << "\ny  " << y << "\ndx " << x.grad() << '\n';
    e.claim("its values are right", allclose(y, tensor({-0.75, -0.5, 1.0 / 3, 0.5})));
    e.claim("its gradient is 1 / (1 + |x|)^2", allclose(x.grad(), tensor({1.0 / 16, 0.25, 4.0 / 9, 0.25})));

    const Tensor points = randn({3, 5}, float64);
    const GradReport report =
        check_gradients([](const auto& in) { return squash(in[0]); }, {points}, GradCheckOptions().order(2));
    std::cout << report << '\n';
    e.claim("first and second derivatives agree with central differences", report.ok);
    e.claim("a slip in the adjoint is found",
            !check_gradients([](const auto& in) { return wrong_squash(in[0]); }, {points}).ok);

    e.section("It trains like any other");
    Tensor w = zeros({1}).requires_grad_();
    for (int step = 0; step < 200; ++step) {
      w.zero_grad();
      pow(squash(w) - 0.5, 2).backward(ones({1}));
      const NoGrad no_grad;
      w.sub_(w.grad());
    }
    std::cout << "squash(w) = 0.5 at w = " << w.item() << '\n';
    e.claim("gradient descent finds w = 1", std::abs(w.item() - 1) < 1e-3);
  });
}
