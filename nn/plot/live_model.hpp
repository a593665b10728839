#pragma once
#include <string>
#include <vector>

#include "fit/nn/models/gpt.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/workbench.hpp"
#include "io/json.hpp"

namespace fit::plot {

// The logits [T, V] of one text, int64 [T], without gradients.
Tensor logits_of(const nn::GPT& model, const Tensor& ids);

// A model that runs in a page (page/engine): its options and its weights as the page has them. `op` is in errors.
class LiveModel {
 public:
  // Throws Error for a model with other layers, weights or blocks than nn::GPT(model.options()), or too many
  // parameters. `wide`: the page has the weights as float32, otherwise as float16.
  LiveModel(const char* op, const nn::GPT& model, bool wide);
  // The options and the tensors' names and shapes, as the script reads them.
  io::Json config() const;
  // The weights of each snapshot as a block of the page, or the present ones without snapshots. data["snapshots"] gets
  // the steps. twin() has the last weights afterwards. Throws Error if steps do not rise, and for other weights.
  std::string blocks(std::vector<ModelSnapshot> snapshots, io::Json& data);
  // twin() gets these weights.
  void show(const StateDict& weights);
  // nn::GPT(model.options()) in evaluation, with weights as the page has them.
  const nn::GPT& twin() const { return twin_; }
  // The same with the last weights as they were, without the rounding to float16.
  nn::GPT unrounded() const;

 private:
  const char* op_;
  bool wide_;
  nn::GPT twin_;
  StateDict present_;
};

}  // namespace fit::plot
