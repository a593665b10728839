#include "loss/common.hpp"
#include "tensor/position.hpp"

namespace fit::nn {
namespace {

// Class scores [..., C] and targets [...] as rows.
struct Rows {
  Tensor scores, ids;      // [N, C], [N]
  Tensor ignored;          // boolean [N]
  Tensor weight, weights;  // [C] and [N], 0 for ignored rows; undefined without class weights

  Rows(const char* op, const char* name, const Tensor& x, const Tensor& targets, std::int64_t ignore_index,
       const Tensor& class_weight);
  // ids, with 0 instead of ignore_index.
  Tensor safe_ids() const { return masked_fill(ids, ignored, 0); }
  Tensor reduced(const Tensor& losses, const Shape& shape, Reduction reduction) const;
};

// Moves the class axis to the end.
Tensor classes_last(const char* op, const Tensor& x, int class_axis) {
  if (class_axis == -1) return x;
  const int axis = check::axis(op, x, class_axis);
  std::vector<int> order;
  for (int a = 0; a < x.rank(); ++a)
    if (a != axis) order.push_back(a);
  order.push_back(axis);
  return permute(x, order);
}

Tensor checked_weight(const char* op, const Tensor& weight, const Tensor& x) {
  if (!weight.defined()) return weight;
  check::shape(op, "weight", weight, {x.shape().back()});
  return weight.detach().to(promote(x.dtype(), float32));
}

Rows::Rows(const char* op, const char* name, const Tensor& x, const Tensor& targets, std::int64_t ignore_index,
           const Tensor& class_weight) {
  check::dtype(op, "targets", targets, int64);
  if (x.rank() == 0 || targets.shape() != x.shape().erased(x.rank() - 1))
    check::fail(op, name, " are ", x.shape(), ", targets ", targets.shape(),
                ": they must be [..., C] and [...], the classes on the last axis (class_axis = 1 takes PyTorch's "
                "[N, C, ...] and [N, ...])");
  const std::int64_t n = targets.numel(), classes = x.shape().back();
  scores = reshape(x, Shape{n, classes});
  ids = reshape(targets, {n});
  for (std::int64_t r = 0; r < n; ++r)
    if (const std::int64_t id = ids.data<std::int64_t>()[r]; id != ignore_index && (id < 0 || id >= classes))
      check::fail(op, "targets", position(targets.shape(), r), " is ", id, ": it must be in 0 … ", classes - 1,
                  ", or ignore_index (", ignore_index, ")");
  ignored = eq(ids, ignore_index);
  weight = checked_weight(op, class_weight, x);
  if (weight.defined()) weights = masked_fill(index_select(weight, 0, safe_ids()), ignored, 0);
}

Tensor Rows::reduced(const Tensor& losses, const Shape& shape, Reduction reduction) const {
  if (reduction == Reduction::none) return reshape(losses, shape);
  Tensor total = sum(losses);
  if (reduction == Reduction::sum) return stated(std::move(total), reduction, 0);
  const double counted = weight.defined() ? sum(weights).item() : sum(!ignored).item();
  return stated(counted == 0 ? total * 0 : total / counted, reduction, counted);
}

// -sum(weight targets log_softmax(logits)), where targets are probabilities.
Tensor soft_cross_entropy(const char* op, const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& o) {
  if (logits.rank() == 0 || targets.shape() != logits.shape())
    check::fail(op, "targets is ", targets.dtype(), ' ', targets.shape(), ", logits ", logits.shape(),
                ": probabilities must have the logits' shape, and ids must be int64");
  if (o.ignore_index() >= 0)
    check::fail(op, "ignore_index is ", o.ignore_index(), ": with probabilities as targets, no class can be ignored");
  check_probabilities(op, "targets", targets, ", softmax() of scores, or ids of int64");
  const Tensor weight = checked_weight(op, o.weight(), logits);
  const double smoothing = o.label_smoothing() / static_cast<double>(logits.shape().back());
  const Tensor smooth = o.label_smoothing() > 0 ? (1 - o.label_smoothing()) * targets + smoothing : targets;
  const Tensor logarithms = log_softmax(logits), each = smooth * logarithms;
  const Tensor rows = -sum(weight.defined() ? each * weight : each, {-1});
  if (o.reduction() == Reduction::mean && rows.numel() == 0) return stated(sum(rows), o.reduction(), 0);
  return reduced(rows, o.reduction());
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& o) {
  // With ids as targets, Autocast keeps bfloat16 logits in bfloat16. The losses of the rows are float32.
  const bool ids = targets.defined() && targets.dtype() == int64;
  const Precision p = ids ? Precision::rounded_or_native : Precision::float32;
  return with_precision(p, {logits, targets}, [&](const Tensor& logits, const Tensor& targets) {
    constexpr const char* op = "cross_entropy";
    check::floating(op, "logits", logits);
    if (!(o.label_smoothing() >= 0 && o.label_smoothing() <= 1))
      check::fail(op, "label_smoothing is ", o.label_smoothing(), ": it must be in 0 … 1");
    check::defined(op, "targets", targets);
    const Tensor scores = classes_last(op, logits, o.class_axis());
    if (is_floating(targets.dtype()))
      return soft_cross_entropy(op, scores, classes_last(op, targets, o.class_axis()), o);
    if (targets.rank() > 0 && targets.shape() == logits.shape())
      check::fail(op, "targets is ", targets.dtype(), ' ', targets.shape(),
                  ", of the shape of logits: ids have no axis of classes; probabilities and one-hot rows are floating, "
                  "targets.to(logits.dtype())");
    const Rows rows(op, "logits", scores, targets, o.ignore_index(), o.weight());
    Tensor losses = cross_entropy_rows(rows.scores, rows.ids, o.ignore_index());
    if (rows.weight.defined()) losses = losses * rows.weights;
    if (o.label_smoothing() > 0) {
      // NaN of an ignored row must not reach log_softmax: its derivative would be NaN. Else no copy is made.
      const bool ignores = sum(rows.ignored).item() > 0;
      const Tensor logarithms =
          log_softmax(ignores ? masked_fill(rows.scores, unsqueeze(rows.ignored, 1), 0) : rows.scores);
      const Tensor all = -sum(rows.weight.defined() ? logarithms * rows.weight : logarithms, {1});
      const double smoothing = o.label_smoothing() / static_cast<double>(scores.shape().back());
      losses = (1 - o.label_smoothing()) * losses + smoothing * masked_fill(all, rows.ignored, 0);
    }
    return rows.reduced(losses, targets.shape(), o.reduction());
  });
}

Tensor nll_loss(const Tensor& input, const Tensor& targets, const NLLOptions& o) {
  return with_precision(Precision::float32, {input, targets}, [&](const Tensor& input, const Tensor& targets) {
    constexpr const char* op = "nll_loss";
    check::floating(op, "input", input);
    const Rows rows(op, "inputs", classes_last(op, input, o.class_axis()), targets, o.ignore_index(), o.weight());
    check_log_probabilities(op, input, "; cross_entropy() takes the logits themselves");
    const Tensor picked = squeeze(gather(rows.scores, 1, unsqueeze(rows.safe_ids(), 1)), 1);
    const Tensor losses = masked_fill(-picked, rows.ignored, 0);
    return rows.reduced(rows.weight.defined() ? losses * rows.weights : losses, targets.shape(), o.reduction());
  });
}

// ---- as layers, printed ---------------------------------------------------------------------------------------------

static std::string axis_of(int class_axis) {
  return class_axis == -1 ? std::string() : joined(", class_axis=", class_axis);
}

std::string describe(const CrossEntropyOptions& o) {
  return joined(weight_of("weight", o.weight()), "ignore_index=", o.ignore_index(),
                ", label_smoothing=", o.label_smoothing(), axis_of(o.class_axis()), ", ", describe(o.reduction()));
}
std::string describe(const NLLOptions& o) {
  return joined(weight_of("weight", o.weight()), "ignore_index=", o.ignore_index(), axis_of(o.class_axis()), ", ",
                describe(o.reduction()));
}

}  // namespace fit::nn
