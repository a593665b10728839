#include "fit/nn/loss.hpp"

#include <algorithm>

#include "check.hpp"
#include "fit/ops.hpp"
#include "layers/describe.hpp"

namespace fit::nn {
namespace {

const char* name_of(Reduction r) { return r == Reduction::none ? "none" : r == Reduction::mean ? "mean" : "sum"; }

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  check::floating("mse_loss", "input", input);
  if (input.shape() != target.shape())
    check::fail("mse_loss", "input is ", input.shape(), ", target is ", target.shape(), ": they must be equal");
  const Tensor off = input - target, squares = off * off;
  return reduction == Reduction::none ? squares : reduction == Reduction::mean ? mean(squares) : sum(squares);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  constexpr const char* op = "cross_entropy";
  check::floating(op, "logits", logits);
  check::dtype(op, "targets", targets, int64);
  if (logits.rank() == 0 || targets.shape() != logits.shape().erased(logits.rank() - 1))
    check::fail(op, "logits are ", logits.shape(), ", targets ", targets.shape(),
                ": they must be [..., C] and [...], the classes on the last axis");
  const std::int64_t n = targets.numel();
  const Tensor ids = reshape(targets, {n});
  const Tensor rows = cross_entropy_rows(reshape(logits, Shape{n, logits.shape().back()}), ids, options.ignore_index);
  if (options.reduction == Reduction::none) return reshape(rows, targets.shape());
  const Tensor total = sum(rows);
  if (options.reduction == Reduction::sum) return total;
  const auto data = ids.data<std::int64_t>();
  const std::int64_t counted = n - std::count(data.begin(), data.end(), options.ignore_index);
  return div(total, std::max<std::int64_t>(counted, 1));
}

std::string MSELoss::describe() const { return describe_all("reduction=", name_of(reduction_)); }

std::string CrossEntropyLoss::describe() const {
  return describe_all("ignore_index=", options_.ignore_index, ", reduction=", name_of(options_.reduction));
}

}  // namespace fit::nn
