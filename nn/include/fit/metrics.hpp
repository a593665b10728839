#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/plot.hpp"
#include "fit/tensor.hpp"

/// What classifiers and language models are judged by. `logits` are scores of classes [..., C] (logits or
/// probabilities), `targets` the right classes [...] (int64), of which those that are ignore_index count for nothing.
///
///     metrics::ConfusionMatrix confusion(10);
///     for (const auto& batch : loader) confusion.add(net(batch[0]), batch[1]);
///     std::cout << confusion.accuracy() << ' ' << confusion.f1() << '\n';
///     confusion.figure(names).save("confusion.svg");
namespace fit::metrics {

/// The share of targets that have the largest score; of equal scores the first counts. NaN if no target counts. Throws
/// Error for shapes that don't fit, targets outside 0 … C - 1 and scores that are NaN.
double accuracy(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index = -100);
/// The share of targets that are among the k largest scores. Throws Error for a k that is not in 1 … C, too.
double top_k_accuracy(const Tensor& logits, const Tensor& targets, std::int64_t k, std::int64_t ignore_index = -100);
/// e^(mean cross entropy) of logits: how many tokens a model hesitates between. NaN if no target counts; infinity where
/// that overflows.
double perplexity(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index = -100);

/// How numbers of classes become one (scikit-learn's names): their mean; the mean weighted by how often each class is
/// right; or of all decisions together, which for classes that exclude each other is the accuracy.
enum class Average { macro, weighted, micro };

/// How often class t was taken for class p.
class ConfusionMatrix {
 public:
  /// Throws Error unless there are 1 … 2^15 classes.
  explicit ConfusionMatrix(std::int64_t classes);

  /// Adds decisions: from scores [..., C], the largest (of equals the first), or from classes [...] (int64). Throws
  /// Error, and has added nothing, for shapes that don't fit, classes out of range and scores that are NaN.
  void add(const Tensor& predicted, const Tensor& targets, std::int64_t ignore_index = -100);

  /// int64 [C, C]: how often, for the right class (row) and the one that was predicted (column).
  Tensor counts() const;
  std::int64_t total() const;

  // ---- NaN where nothing was added. A class that was never predicted has precision 0, one that never was right recall
  //      0, and F1 is 0 where both are, as scikit-learn has it.
  double accuracy() const;
  /// Of what was predicted as this class, the share that is; of what is this class, the share that was predicted so;
  /// and their harmonic mean.
  double precision(std::int64_t c) const;
  double recall(std::int64_t c) const;
  double f1(std::int64_t c) const;
  double precision(Average average) const;
  double recall(Average average) const;
  double f1(Average average = Average::macro) const;

  /// A heat map of shares of the rows, from 0 to 1. `names`: of the classes; their numbers if empty.
  plot::Figure figure(const std::vector<std::string>& names = {}, const std::string& title = "Confusion") const;

 private:
  struct Class {
    double right, predicted, both;  // how often
  };
  Class of(std::int64_t c) const;
  template <class F>
  double averaged(Average average, const F& one) const;

  std::int64_t classes_;
  std::vector<std::int64_t> counts_;  // [C, C]
};

}  // namespace fit::metrics
