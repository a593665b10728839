#pragma once
#include <utility>
#include <vector>

#include "fit/nn/layer/layer.hpp"

namespace fit {

// A guard: puts the model in evaluation, and then gives each layer its mode back.
class Evaluation {
 public:
  explicit Evaluation(nn::Layer& model) {
    model.apply([this](nn::Layer& layer) { modes_.emplace_back(&layer, layer.training()); });
    model.eval();
  }
  ~Evaluation() {  // sublayers after the layer that has them, as train() sets them, too
    for (auto layer = modes_.rbegin(); layer != modes_.rend(); ++layer) layer->first->train(layer->second);
  }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  std::vector<std::pair<nn::Layer*, bool>> modes_;
};

}  // namespace fit
