// Losses that say of how many items they are the mean.
#include <cmath>

#include "fit/graph/graph.hpp"
#include "loss/common.hpp"

namespace fit::nn {
namespace {

void expect_one_number(const char* op, const Tensor& loss) {
  check::floating(op, "loss", loss);
  if (loss.numel() != 1) check::fail(op, "loss is of shape ", loss.shape(), ": it must be one number");
}

// A new tensor of the same value, to say something else of it.
Tensor same(const char* op, const Tensor& loss) {
  expect_one_number(op, loss);
  return record(op, {loss}, loss.alias(loss.shape()), keep::nothing, [](Backward& b) { b.give(0, b.take_dy()); });
}

}  // namespace

double loss_count(const Tensor& loss) {
  expect_one_number("loss_count", loss);
  const fit::detail::LossTerms* const terms = fit::detail::loss_terms(loss);
  if (!terms || terms->sum)
    check::fail("loss_count", "the loss ", terms ? "has a sum among its terms" : "does not say what it is a mean of",
                ": the losses of fit/nn/loss/loss.hpp with Reduction::mean do; say it of another loss by mean_over()");
  return terms->counts[0];
}

Tensor mean_over(const Tensor& loss, double count) {
  if (!(count >= 0) || std::isinf(count))
    check::fail("mean_over", "count is ", count, ": it must be finite and not negative");
  return stated(same("mean_over", loss), Reduction::mean, count);
}

Tensor sum_of(const Tensor& loss) { return stated(same("sum_of", loss), Reduction::sum, 0); }

}  // namespace fit::nn
