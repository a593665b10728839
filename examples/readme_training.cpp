#include <fit/fit.hpp>
#include <iostream>

using namespace fit;

struct Reverser : nn::Layer {  // digits [B, 8] -> scores for each place and digit, [B, 8, 10]
  Tensor forward(const Tensor& digits) const { return out(attention(digit(digits) + place(arange(8)))); }
  FIT_FIELDS(digit, place, attention, out)

  nn::Embedding digit{10, 32}, place{8, 32};
  nn::SelfAttention attention{32, 4};
  nn::Linear out{32, 10};
};

int main() {
  Reverser model;
  optim::AdamW optimizer(model.named_parameters(), 0.003);
  for (int step = 0; step <= 120; ++step) {
    const Tensor digits = randint(0, 10, {64, 8});
    const Tensor loss = nn::cross_entropy(model(digits), flip(digits, 1));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 20 == 0) std::cout << "step " << step << "  loss " << loss.item() << '\n';
  }
  model.eval();
  const Tensor digits = tensor({{3, 1, 4, 1, 5, 9, 2, 6}}), answer = argmax(model(digits), -1);
  std::cout << digits << " reversed:\n" << answer << '\n';
  return equal(answer, flip(digits, 1)) ? 0 : 1;
}
