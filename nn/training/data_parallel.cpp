#include "fit/nn/training/data_parallel.hpp"

#include <cmath>
#include <unordered_set>
#include <utility>

#include "dist/agree.hpp"
#include "dist/batch_ranks.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/ops/ops.hpp"
#include "ops/linalg/batch_rows.hpp"
#include "optim/grad_norm.hpp"
#include "tensor/check.hpp"
#include "training/buckets.hpp"
#include "training/loss_parts.hpp"

namespace fit::dist {
namespace {

constexpr const char* data_parallel_op = "DataParallel";

// The parameters of all living DataParallel objects.
std::unordered_set<const void*> taken;

}  // namespace

// Makes progress with the transfers between the nodes of backward().
struct DataParallel::Polling final : Observer {
  explicit Polling(Buckets& b) : buckets(b) {}
  void node_left(const NodeEvent& e) override {
    if (!e.failed) buckets.poll();
  }
  Buckets& buckets;
};

DataParallel::DataParallel(nn::Layer& model, const DataParallelOptions& options, World& world)
    : DataParallel(options, world, [parameters = model.named_parameters()] { return parameters; }) {
  check_agree(data_parallel_op, "buffers", model.state_dict(), world);
  broadcast_values(data_parallel_op, model.state_dict(), world);
}

DataParallel::DataParallel(nn::Layer& model, const optim::Optimizer& optimizer, const DataParallelOptions& options,
                           World& world)
    : DataParallel(options, world, [&optimizer] { return optimizer.named_parameters(); }) {
  check_agree(data_parallel_op, "parameters", model.named_parameters(), world);
  check_agree(data_parallel_op, "buffers", model.state_dict(), world);
  broadcast_values(data_parallel_op, model.state_dict(), world);
  broadcast_values(data_parallel_op, optimizer.named_parameters(), world);  // some may lie outside the model
}

DataParallel::DataParallel(const optim::Parameters& parameters, const DataParallelOptions& options, World& world)
    : DataParallel(options, world, [named = parameters.named()] { return named; }) {
  broadcast_values(data_parallel_op, parameters.named(), world);
}

DataParallel::DataParallel(const DataParallelOptions& options, World& world, std::function<StateDict()> named)
    : world_(world), named_(std::move(named)), parts_(std::make_unique<LossParts>()) {
  if (options.bucket_bytes() < 1) check::fail(data_parallel_op, "bucket_bytes is 0: it must be at least 1");
  const StateDict parameters = named_();
  check_agree(data_parallel_op, "parameters", parameters, world);
  StateDict trained;
  std::unordered_set<const void*> seen;
  for (const auto& [name, p] : parameters)
    if (p.defined() && p.requires_grad() && seen.insert(p.impl()).second) trained.emplace_back(name, p);
  for (const auto& [name, p] : trained)
    if (p.dtype() == bfloat16)
      fail_alike(data_parallel_op, "the parameter ", name,
                 " is bfloat16, in which sums of gradients lose digits: train float32 parameters under "
                 "Autocast(bfloat16), or freeze it");
  if (world.size() == 1) return;
  for (const auto& [name, p] : trained)
    if (taken.count(p.impl()))
      fail_alike(data_parallel_op, "the parameter ", name,
                 " is in another DataParallel that lives: its gradient would be summed twice");
  buckets_ = std::make_unique<Buckets>(world, options, trained);
  taken.insert(seen.begin(), seen.end());
  parameters_ = {seen.begin(), seen.end()};
  for (std::size_t k = 0; k < trained.size(); ++k)
    hooks_.push_back(register_post_accumulate_grad_hook(trained[k].second, [this, k](const Tensor&) {
      if (!quiet_) buckets_->ready(k);
    }));
  batch_ranks.enter(world);
}

DataParallel::~DataParallel() {
  batch_rows = {};
  if (world_.size() > 1) batch_ranks.leave();
  for (const void* p : parameters_) taken.erase(p);
}

const Traffic& DataParallel::traffic() const {
  static const Traffic none;
  return buckets_ ? buckets_->traffic() : none;
}

Rows DataParallel::rows(std::int64_t of) {
  if (of < 1) check::fail(data_parallel_op, "the batch has no rows: there is nothing to divide");
  if (rows_.of > 0 && rows_.of != of)
    check::fail(data_parallel_op, "rows() is asked for a part of ", of, " rows, and before of ", rows_.of,
                " of the same batch: they must be equal; backward() ends a batch");
  rows_ = Rows(of, world_.rank(), world_.size());
  const Rows part = rows_.or_last();
  if (world_.size() > 1) batch_rows = {part.first, part.count}, batch_ranks.padding = rows_.count == 0;
  return part;
}

Tensor DataParallel::rows(const Tensor& x) {
  if (x.rank() < 1)
    check::fail(data_parallel_op, "rows() is given a tensor without axes: its first axis must run over the rows");
  const Rows part = rows(x.size(0));
  return world_.size() == 1 ? x : slice(x, 0, part.first, part.first + part.count);
}

void DataParallel::discard_parts() {
  rows_ = {};
  batch_rows = {};
  batch_ranks.padding = false;
  begun_ = false;
  *parts_ = {};
}

double DataParallel::backward(const Tensor& loss, double weight) {
  check::not_negative(data_parallel_op, "weight", weight);
  return backward(nn::mean_over(loss, weight));
}

double DataParallel::backward(const Tensor& loss) {
  const Rows rows = std::exchange(rows_, {});
  batch_rows = {};
  if (!begun_) *parts_ = {};
  if (!loss.defined() || loss.numel() != 1)
    check::fail(data_parallel_op, "the loss is ", loss.defined() ? "of shape " + loss.shape().str() : "undefined",
                ": it must be one number");
  const bool padding = rows.of > 0 && rows.count == 0;
  const double weight =
      padding ? 0 : parts_->add(data_parallel_op, loss, rows.of > 0 ? static_cast<double>(rows.count) : 1);
  begun_ |= quiet_ || world_.size() > 1;
  if (weight == 0 && (world_.size() == 1 || !std::isfinite(loss.item())))
    backward_of_nothing(loss);
  else if (begun_)
    backward_of(loss, weight);
  else
    loss.backward();  // one part: no weight, and no division
  batch_ranks.padding = false;
  if (!quiet_) exchange();
  const LossParts all = parts_->of_all_ranks(data_parallel_op, world_);
  if (quiet_) return all.loss();
  if (std::exchange(begun_, false)) divide(all.divisor());
  *parts_ = {};
  return all.loss();
}

// The gradient of w L. bfloat16 would round w.
void DataParallel::backward_of(const Tensor& loss, double weight) {
  const Tensor exact = loss.dtype() == bfloat16 ? loss.to(float32) : loss;
  const Tensor seed = full(exact.shape(), weight, exact.dtype());
  if (world_.size() == 1) return exact.backward(seed);
  Polling polling(*buckets_);
  const Observe watching(polling);
  exact.backward(seed);
}

// A part in which nothing counts gives 0 to parameters without a gradient: also where its loss is 0 / 0. The numbers of
// its gradients don't count, so no parameter sees them.
void DataParallel::backward_of_nothing(const Tensor& loss) {
  if (world_.size() > 1) return backward_of_no_number(loss);
  std::vector<Tensor> trained;
  for (const auto& [name, p] : named_())
    if (p.defined() && p.requires_grad()) trained.push_back(p);
  const std::vector<Tensor> gradients = grad({loss}, trained, allow_unused);
  for (std::size_t i = 0; i < trained.size(); ++i)
    if (gradients[i].defined() && !trained[i].has_grad()) trained[i].set_grad(zeros_like(trained[i].detach()));
}

// The same on ranks, for a loss that is not finite. All run the same backward pass, which BatchNorm sums over: what is
// finite stays, as the rows are in its statistics, and so in other losses.
void DataParallel::backward_of_no_number(const Tensor& loss) {
  StateDict parameters = named_();
  std::vector<Tensor> before;
  for (const auto& [name, p] : parameters) before.push_back(p.defined() && p.has_grad() ? p.grad().clone() : Tensor());
  {
    const NoSync quiet(*this);  // finish() sends what is set here
    backward_of(loss, 0);
  }
  const NoGrad no_grad;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (Tensor& p = parameters[i].second; p.defined() && p.has_grad() && !optim::all_finite(p.grad()))
      p.set_grad(before[i].defined() ? before[i] : zeros_like(p));
}

// Sums the gradients of all ranks.
void DataParallel::exchange() {
  if (world_.size() == 1) return;
  const NoGrad no_grad;
  buckets_->finish();
}

void DataParallel::finish() { exchange(); }

void DataParallel::divide(double divisor) {
  const NoGrad no_grad;
  const std::unordered_set<const void*> summed(parameters_.begin(), parameters_.end());
  for (const auto& [name, p] : named_()) {
    if (!p.defined() || !p.requires_grad() || !p.has_grad()) continue;
    if (world_.size() > 1 && summed.count(p.impl()) == 0)
      check::fail(data_parallel_op, "the parameter ", name,
                  " was frozen when the DataParallel was made: its gradients are not summed. Unfreeze it before");
    if (divisor != 1) p.grad().div_(divisor);
  }
}

}  // namespace fit::dist
