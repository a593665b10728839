// The smallest GPT, beside the same step written by hand.
#include <utility>

#include "bench.hpp"
#include "fit/fit.hpp"
#include "hand_written_gpt.hpp"
#include "kernels/simd/isa.hpp"

namespace fit::bench {

std::unique_ptr<HandWrittenGPT> hand_written_gpt(std::int64_t d) {
  return FIT_KERNELS(hand_written_gpt_of, HandWrittenGPT)(d);
}

namespace {

using Hand = HandWrittenGPT;

// Both models with the same parameters, and a batch.
struct Setup {
  explicit Setup(std::int64_t d)
      : model(nn::GPTOptions()
                  .vocab_size(Hand::vocab)
                  .context_length(Hand::T)
                  .num_layers(1)
                  .num_heads(Hand::heads)
                  .d_model(d)
                  .bias(false)
                  .tie_weights(false)
                  .norm(nn::Norm::rms)
                  .activation(nn::Activation::squared_relu)),
        optimizer(model.named_parameters(), 1e-3),
        by_hand(hand_written_gpt(d)) {
    const auto arrays = by_hand->parameters();
    const std::vector<Tensor> parameters = model.parameters();
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const auto from = parameters[i].data<float>();
      std::copy(from.begin(), from.end(), arrays[i].data);
    }
  }
  Tensor step() {
    optimizer.zero_grad();
    Tensor loss = model.loss(ids, targets);
    loss.backward();
    optimizer.step();
    return loss;
  }
  float step_by_hand() { return by_hand->step(ids.data<std::int64_t>().data(), targets.data<std::int64_t>().data()); }

  nn::GPT model;
  optim::Adam optimizer;
  std::unique_ptr<Hand> by_hand;
  Tensor ids = randint(0, Hand::vocab, {Hand::B, Hand::T}), targets = randint(0, Hand::vocab, {Hand::B, Hand::T});
};

Tensor copied(const Hand::Array& array, const Shape& shape) {
  Tensor x = Tensor::empty(shape, float32);
  std::copy_n(array.data, array.size, x.edit<float>().data());
  return x;
}

Workload tiny_gpt(std::int64_t d) {
  constexpr std::int64_t tokens = Hand::B * Hand::T;
  Workload w{"tiny_gpt_d" + std::to_string(d),
             Limit::gemm,
             6.0 * static_cast<double>((12 * d * d + Hand::vocab * d + Hand::T * d) * tokens),
             2.0,
             [d]() -> std::function<void()> {
               auto s = std::make_shared<Setup>(d);
               return [s] { s->step(); };
             },
             [d] {
               Setup s(d);
               for (int i = 0; i < 3; ++i) {
                 expect_close("the loss", s.step().detach(), tensor(s.step_by_hand()), 1e-4);
                 const auto gradients = s.by_hand->gradients(), parameters = s.by_hand->parameters();
                 const auto ours = s.model.named_parameters();
                 for (std::size_t k = 0; k < ours.size(); ++k) {
                   const auto& [name, p] = ours[k];
                   expect_close(("the gradient of " + name).c_str(), p.grad(), copied(gradients[k], p.shape()), 1e-4);
                   expect_close(name.c_str(), p.detach(), copied(parameters[k], p.shape()), 1e-3);
                 }
               }
             }};
  w.by_hand = [d]() -> std::function<void()> {
    auto s = std::make_shared<Setup>(d);
    return [s] { s->step_by_hand(); };
  };
  return w;
}

}  // namespace

std::vector<Workload> tiny_gpt_workloads() { return {tiny_gpt(16), tiny_gpt(32), tiny_gpt(64)}; }

}  // namespace fit::bench
