#pragma once
#include <string>
#include <vector>

#include "fit/nn/loss/loss.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "support/callable.hpp"

// Every loss function with a Reduction, on rows that may be divided in any way.
namespace fit::test {

/// Rows of a batch: what a model reads, and targets of each kind. A row with id -1 does not count in losses of classes.
struct LossRows {
  Tensor x, ids, numbers, fractions, signs;  // [N, 4], [N], [N, 5], [N, 5] that sum to 1, [N] of 1 and -1
  std::int64_t size() const { return x.size(0); }
  LossRows slice(std::int64_t first, std::int64_t last) const {
    const auto of = [&](const Tensor& t) { return fit::slice(t, 0, first, last); };
    return {of(x), of(ids), of(numbers), of(fractions), of(signs)};
  }
};

/// Parts of these sizes, one after the other.
inline std::vector<LossRows> divided(const LossRows& all, const std::vector<std::int64_t>& sizes) {
  std::vector<LossRows> parts;
  std::int64_t first = 0;
  for (const std::int64_t n : sizes) parts.push_back(all.slice(first, first + n)), first += n;
  return parts;
}

/// Random rows with these ids.
inline LossRows loss_rows(const std::vector<std::int64_t>& ids) {
  const auto n = static_cast<std::int64_t>(ids.size());
  Generator g(5);
  return {randn({n, 4}, float64, g), tensor(ids), randn({n, 5}, float64, g), softmax(randn({n, 5}, float64, g)),
          tensor(std::vector<double>{1, -1, 1, 1, -1, 1, -1, -1}, {8})[{range(0, n)}]};
}

struct LossFunction {
  std::string name;
  bool counts_ids;                                                              // rows with id -1 do not count
  Callable<Tensor(const Tensor& y, const LossRows& rows, nn::Reduction)> loss;  // y [N, 5]
  /// The number of items over which the mean is taken.
  Callable<double(const LossRows& rows)> count;
};

inline std::vector<LossFunction> loss_functions() {
  using nn::Reduction;
  const Tensor weight = tensor({0.5, 1., 2., 0.25, 3.}, float64);
  const auto targets = [](const LossRows& r) { return sum(r.ids >= 0).item(); };
  const auto weights = [weight](const LossRows& r) {
    double total = 0;
    for (const std::int64_t id : r.ids.to_vector<std::int64_t>())
      if (id >= 0) total += weight[{id}].item();
    return total;
  };
  const auto rows = [](const LossRows& r) { return static_cast<double>(r.size()); };
  const auto elements = [](const LossRows& r) { return 5. * static_cast<double>(r.size()); };
  const auto ce = [] { return nn::CrossEntropyOptions().ignore_index(-1); };
  return {
      {"cross_entropy", true,
       [=](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::cross_entropy(y, r.ids, ce().reduction(to));
       },
       targets},
      {"cross_entropy with class weights", true,
       [=](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::cross_entropy(y, r.ids, ce().weight(weight).reduction(to));
       },
       weights},
      {"cross_entropy with smoothing", true,
       [=](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::cross_entropy(y, r.ids, ce().label_smoothing(0.1).reduction(to));
       },
       targets},
      {"cross_entropy of fractions", false,
       [](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::cross_entropy(y, r.fractions, nn::CrossEntropyOptions().reduction(to));
       },
       rows},
      {"nll_loss", true,
       [](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::nll_loss(log_softmax(y), r.ids, nn::NLLOptions().ignore_index(-1).reduction(to));
       },
       targets},
      {"nll_loss with class weights", true,
       [=](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::nll_loss(log_softmax(y), r.ids, nn::NLLOptions().ignore_index(-1).weight(weight).reduction(to));
       },
       weights},
      {"binary_cross_entropy", false,
       [](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::binary_cross_entropy(sigmoid(y), r.fractions, nn::BCEOptions().reduction(to));
       },
       elements},
      {"binary_cross_entropy_with_logits", false,
       [=](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::binary_cross_entropy_with_logits(y, r.fractions,
                                                     nn::BCEWithLogitsOptions().weight(weight).reduction(to));
       },
       elements},
      {"focal_loss", false,
       [](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::focal_loss(y, r.fractions, nn::FocalOptions().reduction(to));
       },
       elements},
      {"mse_loss", false,
       [](const Tensor& y, const LossRows& r, Reduction to) { return nn::mse_loss(y, r.numbers, to); }, elements},
      {"l1_loss", false, [](const Tensor& y, const LossRows& r, Reduction to) { return nn::l1_loss(y, r.numbers, to); },
       elements},
      {"smooth_l1_loss", false,
       [](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::smooth_l1_loss(y, r.numbers, nn::SmoothL1Options().beta(0.5).reduction(to));
       },
       elements},
      {"huber_loss", false,
       [](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::huber_loss(y, r.numbers, nn::HuberOptions().reduction(to));
       },
       elements},
      {"gaussian_nll_loss", false,
       [](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::gaussian_nll_loss(y, r.numbers, r.fractions + 0.1, nn::GaussianNLLOptions().reduction(to));
       },
       elements},
      {"kl_div", false,
       [](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::kl_div(log_softmax(y), r.fractions, nn::KLDivOptions().reduction(to));
       },
       elements},
      {"cosine_embedding_loss", false,
       [](const Tensor& y, const LossRows& r, Reduction to) {
         return nn::cosine_embedding_loss(y, r.numbers, r.signs, nn::CosineEmbeddingOptions().reduction(to));
       },
       rows},
      {"ctc_loss", false,
       [](const Tensor& y, const LossRows& r, Reduction to) {
         const Tensor one = ones({r.size()}, int64), label = 1 + clamp_min(r.ids, 0) % 4;
         return nn::ctc_loss(log_softmax(y).unsqueeze(0), label.unsqueeze(1), one, one, nn::CTCOptions().reduction(to));
       },
       rows},
  };
}

/// All ways to divide n rows into consecutive parts that are not empty: the numbers of rows.
inline std::vector<std::vector<std::int64_t>> compositions(std::int64_t n) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t cuts = 0; cuts < std::int64_t{1} << (n - 1); ++cuts) {
    std::vector<std::int64_t> parts{1};
    for (std::int64_t i = 0; i + 1 < n; ++i) {
      if (cuts >> i & 1)
        parts.push_back(1);
      else
        ++parts.back();
    }
    all.push_back(parts);
  }
  return all;
}

}  // namespace fit::test
