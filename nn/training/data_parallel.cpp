#include "fit/data_parallel.hpp"

#include <unordered_set>

#include "dist/agree.hpp"
#include "fit/graph.hpp"
#include "fit/ops.hpp"
#include "ops/batch_rows.hpp"
#include "tensor/check.hpp"
#include "training/buckets.hpp"

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
    : DataParallel(options, world, model.named_parameters()) {
  check_agree(data_parallel_op, "buffers", model.state_dict(), world);
  broadcast_values(data_parallel_op, model.state_dict(), world);
}

DataParallel::DataParallel(const optim::Parameters& parameters, const DataParallelOptions& options, World& world)
    : DataParallel(options, world, parameters.named()) {
  broadcast_values(data_parallel_op, parameters.named(), world);
}

DataParallel::DataParallel(const DataParallelOptions& options, World& world, const StateDict& parameters)
    : world_(world) {
  if (options.bucket_bytes() < 1) check::fail(data_parallel_op, "bucket_bytes is 0: it must be at least 1");
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
  if (world.size() > 1)
    for (const auto& [name, p] : trained)
      if (taken.count(p.impl()))
        fail_alike(data_parallel_op, "the parameter ", name,
                   " is in another DataParallel that lives: its gradient would be summed twice");
  buckets_ = std::make_unique<Buckets>(world, options, trained);
  if (world.size() == 1) return;
  taken.insert(seen.begin(), seen.end());
  parameters_ = {seen.begin(), seen.end()};
  for (std::size_t k = 0; k < trained.size(); ++k)
    hooks_.push_back(register_post_accumulate_grad_hook(trained[k].second, [this, k](const Tensor&) {
      if (!quiet_) buckets_->ready(k);
    }));
}

DataParallel::~DataParallel() {
  batch_rows = {};
  for (const void* p : parameters_) taken.erase(p);
}

const Traffic& DataParallel::traffic() const { return buckets_->traffic(); }

Rows DataParallel::rows(std::int64_t of) {
  if (of < 1) check::fail(data_parallel_op, "the batch has no rows: there is nothing to divide");
  if (rows_.of > 0 && rows_.of != of)
    check::fail(data_parallel_op, "rows() is asked for a part of ", of, " rows, and before of ", rows_.of,
                " of the same batch: they must be equal; backward() ends a batch");
  rows_ = Rows(of, world_.rank(), world_.size());
  const Rows part = rows_.or_last();
  if (world_.size() > 1) batch_rows = {part.first, part.count};
  return part;
}

Tensor DataParallel::rows(const Tensor& x) {
  if (x.rank() < 1)
    check::fail(data_parallel_op, "rows() is given a tensor without axes: its first axis must run over the rows");
  const Rows part = rows(x.size(0));
  return world_.size() == 1 ? x : slice(x, 0, part.first, part.first + part.count);
}

double DataParallel::backward(const Tensor& loss) {
  return weighted_backward(loss, rows_.of > 0 ? rows_.share() : 1. / world_.size());
}

double DataParallel::backward(const Tensor& loss, double weight) {
  if (!(weight >= 0)) check::fail(data_parallel_op, "weight is ", weight, ": it must not be negative");
  if (world_.size() == 1) return weighted_backward(loss, 1);
  const double all = sum({weight}, world_)[0];
  if (all == 0) fail_alike(data_parallel_op, "the weights of all ranks are 0: the batch has nothing that counts");
  return weighted_backward(loss, weight / all);
}

double DataParallel::weighted_backward(const Tensor& loss, double share) {
  rows_ = {};
  batch_rows = {};
  if (!loss.defined() || loss.numel() != 1)
    check::fail(data_parallel_op, "the loss is ", loss.defined() ? "of shape " + loss.shape().str() : "undefined",
                ": it must be one number");
  if (world_.size() == 1) {
    loss.backward();
    return loss.item();
  }
  const Tensor part = loss * share;
  {
    Polling polling(*buckets_);
    const Observe watching(polling);
    part.backward();
  }
  if (!quiet_) finish();
  return sum({share > 0 ? part.item() : 0}, world_)[0];
}

void DataParallel::finish() {
  if (world_.size() == 1) return;
  const NoGrad no_grad;
  buckets_->finish();
}

}  // namespace fit::dist
