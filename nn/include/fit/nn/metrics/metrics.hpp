#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "fit/tensor/tensor.hpp"

/// Metrics for classifiers and language models. `logits` are scores of classes [..., C] (logits or probabilities).
/// `targets` are the true classes [...] (int64). Targets equal to ignore_index do not count.
///
///     metrics::ConfusionMatrix confusion(10);
///     for (const auto& batch : loader) confusion.add(net(batch[0]), batch[1]);
///     std::cout << confusion.accuracy() << ' ' << confusion.f1() << '\n';
///     plot::confusion(confusion, names).save("confusion.svg");  // fit/plot.hpp
namespace fit::metrics {

/// The fraction of targets with the largest score; of equal scores the first counts. NaN if no target counts. Throws
/// Error for shapes that don't fit, targets outside 0 … C - 1 and scores that are NaN.
double accuracy(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index = -100);
/// The fraction of targets among the k largest scores. Also throws Error for k outside 1 … C.
double top_k_accuracy(const Tensor& logits, const Tensor& targets, std::int64_t k, std::int64_t ignore_index = -100);
/// e^(mean cross entropy) of logits: the effective number of choices for a token. NaN if no target counts; infinity on
/// overflow.
double perplexity(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index = -100);

/// How values per class are averaged (scikit-learn's names). macro: the mean over all classes, as with scikit-learn's
/// labels=range(C): a class without targets and predictions counts as 0, where its default leaves that class out.
/// weighted: the mean weighted by the number of targets of each class. micro: over all predictions: the accuracy.
enum class Average { macro, weighted, micro };

/// Counts how often class t was predicted as class p.
class ConfusionMatrix {
 public:
  /// Throws Error unless there are 1 … 2^15 classes.
  explicit ConfusionMatrix(std::int64_t classes);

  /// Adds predictions: scores [..., C] (the largest counts, of equals the first) or classes [...] (int64). Throws
  /// Error, and adds nothing, for shapes that don't fit, classes out of range and scores that are NaN.
  void add(const Tensor& predicted, const Tensor& targets, std::int64_t ignore_index = -100);

  /// The counts, int64 [C, C]: a row for each true class, a column for each predicted class.
  Tensor counts() const;
  std::int64_t total() const;
  /// The counts as a table with the classes 0 … C - 1, or their names: a line for each true class.
  std::string str(const std::vector<std::string>& names = {}) const;

  // ---- NaN if nothing was added. As in scikit-learn, precision is 0 for a class that was never predicted, recall is 0
  //      for a class without targets, and F1 is 0 if both are 0.
  double accuracy() const;
  /// precision: the fraction of predictions of this class that are right. recall: the fraction of targets of this class
  /// that were predicted. f1: their harmonic mean.
  double precision(std::int64_t c) const;
  double recall(std::int64_t c) const;
  double f1(std::int64_t c) const;
  double precision(Average average) const;
  double recall(Average average) const;
  double f1(Average average = Average::macro) const;

 private:
  struct Class {
    double right, predicted, both;  // counts
  };
  Class of(std::int64_t c) const;
  template <class F>
  double averaged(Average average, const F& one) const;

  std::int64_t classes_;
  std::vector<std::int64_t> counts_;  // [C, C]
};

/// Writes str().
std::ostream& operator<<(std::ostream& out, const ConfusionMatrix& matrix);

}  // namespace fit::metrics
