#pragma once
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/data/data.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/dropout.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/nn/optim/schedule.hpp"
#include "fit/ops/ops.hpp"
#include "support/tensors.hpp"

// A small language model with attention and dropout, and its training: what checkpoints and reproducibility are tested
// with.
namespace fit::test {

struct SmallModel : nn::UnaryLayer {
  Tensor forward(const Tensor& ids) const override {  // [B, T] -> [B, T, 11]
    const Tensor x = embedding(ids);
    return out(dropout(x + attention(norm(x))));
  }
  FIT_FIELDS(embedding, norm, attention, dropout, out, count)
  nn::Embedding embedding{11, 16};
  nn::LayerNorm norm{16};
  nn::CausalSelfAttention attention{16, 4, 0.2};
  nn::Dropout dropout{0.1};
  nn::Linear out{16, 11};
  nn::Buffer count{zeros({2})};
};

/// 40 sequences of 9 tokens: input and target.
inline data::TensorDataset small_data() {
  Generator g(3);
  const Tensor ids = randint(0, 11, {40, 9}, g);
  return data::TensorDataset({ids[{range(), range(0, 8)}], ids[{range(), range(1, 9)}]});
}

inline data::LoaderOptions shuffled(int prefetch = 0) {
  return data::LoaderOptions().batch_size(6).shuffle().seed(21).prefetch(prefetch);
}

/// A model with all that trains it.
struct SmallTraining {
  explicit SmallTraining(std::uint64_t seed = 1, int prefetch = 0) : loader(small_data(), shuffled(prefetch)) {
    manual_seed(seed);
    model = std::make_unique<SmallModel>();
    optimizer = std::make_unique<optim::AdamW>(model->named_parameters(), 1e-2);
    schedule = std::make_unique<optim::CosineAnnealingLR>(*optimizer, 30);
  }
  Tensor loss(const data::Batch& b) const { return nn::cross_entropy((*model)(b[0]), b[1]); }
  double step(const data::Batch& b) {
    const Tensor value = loss(b);
    optimizer->zero_grad();
    value.backward();
    optimizer->step();
    schedule->step();
    return value.item();
  }
  /// Up to `steps` steps in all, of which `done` have been taken.
  std::vector<double> run(int steps, int done = 0) {
    std::vector<double> losses;
    while (done < steps)
      for (const data::Batch& b : loader) {
        losses.push_back(step(b));
        if (++done == steps) break;
      }
    return losses;
  }
  data::DataLoader loader;
  std::unique_ptr<SmallModel> model;
  std::unique_ptr<optim::AdamW> optimizer;
  std::unique_ptr<optim::CosineAnnealingLR> schedule;
};

/// A copy of what the layer holds now.
inline nn::StateDict copied(const nn::Layer& layer) {
  nn::StateDict state = layer.state_dict();
  for (auto& [name, tensor] : state) tensor = tensor.clone();
  return state;
}

inline bool same_state(const nn::StateDict& a, const nn::StateDict& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same_bits(x.second, y.second); });
}

}  // namespace fit::test
