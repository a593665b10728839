#include "training/likely_cause.hpp"

#include "fit/graph/graph.hpp"
#include "fit/nn/training/trainer.hpp"
#include "fit/ops/ops.hpp"
#include "optim/grad_norm.hpp"

namespace fit {

using data::Batch;

namespace {

// The first row (along the first axis) with an element for which `wrong` is true, or -1.
template <class F>
std::int64_t first_row(const Tensor& x, const F& wrong) {
  if (x.rank() == 0 || x.numel() == 0) return -1;
  const Tensor found = any(wrong(x).reshape({x.size(0), x.numel() / x.size(0)}), 1);
  for (std::int64_t row = 0; row < x.size(0); ++row)
    if (found[row].item<bool>()) return row;
  return -1;
}

}  // namespace

std::string likely_cause(const Batch& batch, const data::DataLoader& loader, const nn::Layer& model) {
  const NoGrad no_grad;
  const std::int64_t first = loader.rows().first;
  for (const auto& [what, wrong] :
       {std::pair<const char*, Tensor (*)(const Tensor&)>{"NaN", isnan}, {"an infinity", isinf}})
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!batch[i].defined() || !is_floating(batch[i].dtype())) continue;
      if (const std::int64_t row = first_row(batch[i], wrong); row >= 0)
        return "field " + std::to_string(i) + " of the batch holds " + what + " in row " + std::to_string(first + row);
    }
  for (const auto& [name, p] : model.named_parameters())
    if (!optim::all_finite(p.detach())) return "the parameter " + name + " is not finite";
  return "the learning rate may be too high";
}

}  // namespace fit
