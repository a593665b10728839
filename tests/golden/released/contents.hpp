#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fit/nn.hpp"

// What the files of each released version hold. write.cpp wrote them, and tests/nn/training/released_test.cpp reads
// them.
namespace released {

using namespace fit;

/// Numbers that every type represents exactly, others for each `seed`.
inline Tensor pattern(const Shape& shape, DType dtype, std::int64_t seed = 0) {
  const Tensor i = arange(shape.numel()) * 7 + seed;
  return reshape((remainder(i, 13) - 6).to(float64) / (is_floating(dtype) ? 8 : 1), shape).to(dtype);
}

/// Sets all parameters of a model to patterns.
inline void fill(nn::Layer& model) {
  const NoGrad no_grad;
  std::int64_t seed = 0;
  for (auto& [name, p] : model.named_parameters()) p.copy_(pattern(p.shape(), p.dtype(), ++seed));
}

/// Tensors of every type that a file can hold.
inline StateDict tensors() {
  StateDict all;
  for (const auto& [name, dtype] : std::vector<std::pair<std::string, DType>>{{"float32", float32},
                                                                              {"float64", float64},
                                                                              {"bfloat16", bfloat16},
                                                                              {"int64", int64},
                                                                              {"int8", int8},
                                                                              {"boolean", boolean}})
    for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{2, 5}})
      all.emplace_back(name + '.' + std::to_string(shape.numel()), pattern(shape, dtype));
  return all;
}

inline nn::GPTOptions gpt_options() {
  return nn::GPTOptions()
      .vocab_size(11)
      .context_length(8)
      .num_layers(1)
      .num_heads(2)
      .num_kv_heads(1)
      .d_model(8)
      .positions(nn::Positions::rotary);
}
inline Tensor gpt_input() { return tensor({{3, 1, 4, 1, 5, 9}}); }

/// A training: a model, its optimiser and schedule, and the loader of its data.
struct Training {
  Training() { fill(model); }

  /// One step.
  void step() {
    const Tensor loss = nn::mse_loss(model(pattern({6, 3}, float32)), pattern({6, 2}, float32, 5));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    schedule.step();
  }
  Checkpoint checkpoint() {
    Checkpoint c;
    c.add("model", model).add("optimizer", optimizer).add("schedule", schedule).add("loader", loader);
    return c;
  }

  nn::Linear model{3, 2};
  optim::AdamW optimizer{model.named_parameters(), 0.125};
  optim::StepLR schedule{optimizer, 2, 0.5};
  data::DataLoader loader{data::TensorDataset({pattern({6, 3}, float32)}), 2};
};

/// Two rows of a log.
inline std::vector<std::map<std::string, double>> log_rows() {
  return {{{"step", 1}, {"loss", 2.5}}, {{"step", 2}, {"loss", 1.25}, {"validation", -1e-300}}};
}

inline const char* const sample = "the cat sat on the mat, the cat ate — ünïcode";

}  // namespace released
