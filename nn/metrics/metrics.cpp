#include "fit/nn/metrics/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <ostream>

#include "common/functions.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::metrics {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double share(double part, double whole) { return whole == 0 ? nan : part / whole; }
// A precision or recall with denominator 0 is 0.
double share_or_0(double part, double whole) { return whole == 0 ? 0 : part / whole; }
double harmonic(double a, double b) { return a + b == 0 ? 0 : 2 * a * b / (a + b); }

void check_class(const char* op, const char* name, std::int64_t row, std::int64_t c, std::int64_t classes) {
  if (c < 0 || c >= classes) check::fail(op, name, '[', row, "] is ", c, ": it must be in 0 … ", classes - 1);
}

// Calls f(row, target) for each target that counts.
template <class F>
void each_target(const char* op, const Tensor& targets, std::int64_t classes, std::int64_t ignore_index, const F& f) {
  const auto ids = targets.data<std::int64_t>();
  for (std::int64_t row = 0; row < ids.size(); ++row) {
    if (ids[row] == ignore_index) continue;
    check_class(op, "targets", row, ids[row], classes);
    f(row, ids[row]);
  }
}

void check_scores(const char* op, const Tensor& scores, const Tensor& targets) {
  check::floating(op, "logits", scores);
  check::dtype(op, "targets", targets, int64);
  if (scores.rank() == 0 || targets.shape() != scores.shape().erased(scores.rank() - 1) || scores.size(-1) == 0)
    check::fail(op, "logits are ", scores.shape(), ", targets ", targets.shape(),
                ": they must be [..., C] and [...], with C at least 1");
}

// The rank of class c in a row of scores: the number of larger scores, plus equal scores at smaller indices.
std::int64_t place_of(const char* op, const Tensor& scores, std::int64_t row, std::int64_t c) {
  const std::int64_t classes = scores.size(-1);
  std::int64_t before = 0;
  dispatch_floating(scores.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const at = scores.data<T>().begin() + row * classes;
    for (std::int64_t i = 0; i < classes; ++i) {
      if (std::isnan(at[i])) check::fail(op, "row ", row, " of logits holds NaN for class ", i);
      before += at[i] > at[c] || (at[i] == at[c] && i < c);
    }
  });
  return before;
}

double share_of_top(const char* op, const Tensor& logits, const Tensor& targets, std::int64_t k,
                    std::int64_t ignore_index) {
  check_scores(op, logits, targets);
  const std::int64_t classes = logits.size(-1);
  if (k < 1 || k > classes) check::fail(op, "k is ", k, ": it must be in 1 … ", classes);
  double hits = 0, all = 0;
  each_target(op, targets, classes, ignore_index, [&](std::int64_t row, std::int64_t target) {
    hits += place_of(op, logits, row, target) < k;
    ++all;
  });
  return share(hits, all);
}

}  // namespace

double top_k_accuracy(const Tensor& logits, const Tensor& targets, std::int64_t k, std::int64_t ignore_index) {
  return share_of_top("top_k_accuracy", logits, targets, k, ignore_index);
}

double accuracy(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index) {
  return share_of_top("accuracy", logits, targets, 1, ignore_index);
}

double perplexity(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index) {
  check_scores("perplexity", logits, targets);
  const NoGrad no_grad;
  if (all(eq(targets, ignore_index)).item<bool>()) return nan;
  return nn::number::exp(
      nn::cross_entropy(logits.to(float64), targets, nn::CrossEntropyOptions().ignore_index(ignore_index)).item());
}

ConfusionMatrix::ConfusionMatrix(std::int64_t classes) : classes_(classes) {
  if (classes < 1 || classes > 1 << 15)
    check::fail("ConfusionMatrix", "classes is ", classes, ": it must be in 1 … ", 1 << 15);
  counts_.resize(static_cast<std::size_t>(classes * classes));
}

void ConfusionMatrix::add(const Tensor& predicted, const Tensor& targets, std::int64_t ignore_index) {
  constexpr const char* op = "ConfusionMatrix";
  check::defined(op, "predicted", predicted);
  Tensor ids = predicted;
  if (is_floating(predicted.dtype())) {
    check_scores(op, predicted, targets);
    if (predicted.size(-1) != classes_)
      check::fail(op, "logits are ", predicted.shape(), ": the last axis must have ", classes_, " classes");
    ids = argmax(predicted, -1);
  }
  check::dtype(op, "predicted", ids, int64);
  check::dtype(op, "targets", targets, int64);
  if (ids.shape() != targets.shape())
    check::fail(op, "predicted is ", ids.shape(), ", targets ", targets.shape(), ": they must be equal");
  std::vector<std::size_t> cells;
  const auto found = ids.data<std::int64_t>();
  each_target(op, targets, classes_, ignore_index, [&](std::int64_t row, std::int64_t target) {
    check_class(op, "predicted", row, found[row], classes_);
    if (is_floating(predicted.dtype())) place_of(op, predicted, row, target);  // throws on NaN
    cells.push_back(static_cast<std::size_t>(target * classes_ + found[row]));
  });
  for (const std::size_t cell : cells) ++counts_[cell];
}

Tensor ConfusionMatrix::counts() const { return tensor(counts_, {classes_, classes_}); }

std::int64_t ConfusionMatrix::total() const { return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}); }

std::string ConfusionMatrix::str(const std::vector<std::string>& names) const {
  const auto classes = static_cast<std::size_t>(classes_);
  if (!names.empty() && names.size() != classes)
    check::fail("ConfusionMatrix", names.size(), " names for ", classes_, " classes: there must be one for each");
  std::vector<std::vector<std::string>> table(classes + 1, std::vector<std::string>(classes + 1));
  table[0][0] = "true \\ predicted";
  for (std::size_t c = 0; c < classes; ++c) {
    table[0][c + 1] = table[c + 1][0] = names.empty() ? std::to_string(c) : names[c];
    for (std::size_t p = 0; p < classes; ++p) table[c + 1][p + 1] = std::to_string(counts_[c * classes + p]);
  }
  std::vector<std::size_t> width(classes + 1);
  for (const auto& row : table)
    for (std::size_t i = 0; i <= classes; ++i) width[i] = std::max(width[i], row[i].size());
  std::string text;
  for (const auto& row : table) {
    for (std::size_t i = 0; i <= classes; ++i)
      text += (i == 0 ? "" : "  ") + std::string(width[i] - row[i].size(), ' ') + row[i];
    text += '\n';
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const ConfusionMatrix& matrix) { return out << matrix.str(); }

ConfusionMatrix::Class ConfusionMatrix::of(std::int64_t c) const {
  if (c < 0 || c >= classes_)
    check::fail("ConfusionMatrix", "there is no class ", c, ": it must be in 0 … ", classes_ - 1);
  Class all{0, 0, static_cast<double>(counts_[c * classes_ + c])};
  for (std::int64_t i = 0; i < classes_; ++i) {
    all.right += static_cast<double>(counts_[c * classes_ + i]);
    all.predicted += static_cast<double>(counts_[i * classes_ + c]);
  }
  return all;
}

template <class F>
double ConfusionMatrix::averaged(Average average, const F& one) const {
  const double all = static_cast<double>(total());
  if (all == 0 || average == Average::micro) return accuracy();
  double sum = 0;
  for (std::int64_t c = 0; c < classes_; ++c) sum += one(c) * (average == Average::macro ? 1 : of(c).right);
  return sum / (average == Average::macro ? static_cast<double>(classes_) : all);
}

double ConfusionMatrix::accuracy() const {
  double right = 0;
  for (std::int64_t c = 0; c < classes_; ++c) right += of(c).both;
  return share(right, static_cast<double>(total()));
}

double ConfusionMatrix::precision(std::int64_t c) const { return share_or_0(of(c).both, of(c).predicted); }
double ConfusionMatrix::recall(std::int64_t c) const { return share_or_0(of(c).both, of(c).right); }
double ConfusionMatrix::f1(std::int64_t c) const { return harmonic(precision(c), recall(c)); }

double ConfusionMatrix::precision(Average average) const {
  return averaged(average, [&](std::int64_t c) { return precision(c); });
}
double ConfusionMatrix::recall(Average average) const {
  return averaged(average, [&](std::int64_t c) { return recall(c); });
}
double ConfusionMatrix::f1(Average average) const {
  return averaged(average, [&](std::int64_t c) { return f1(c); });
}

}  // namespace fit::metrics
