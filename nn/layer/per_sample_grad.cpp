#include "fit/nn/layer/per_sample_grad.hpp"

#include <cstring>
#include <string>
#include <unordered_map>

#include "common/keyed_draws.hpp"
#include "fit/backward/functional.hpp"
#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "graph/node.hpp"
#include "tensor/check.hpp"

namespace fit::nn::detail {
namespace {

// Derivatives of an output by the wanted parameters.
using Derivatives = std::vector<Tensor> (*)(const Tensor& y, const std::vector<Tensor>& wanted);

// Throws Error if the output depends on parameters of the model itself instead of the copy that the function is given.
void expect_copy(const char* op, const Layer& model, const Tensor& y) {
  if (!y.defined() || !y.requires_grad()) return;
  std::unordered_map<const fit::detail::Node*, std::string> own;
  for (const auto& [name, p] : model.named_parameters())
    if (p.requires_grad()) own.emplace(p.impl()->node, name);
  for (const fit::detail::Node* n : fit::detail::nodes_behind(y.impl()->node))
    if (const auto found = own.find(n); found != own.end())
      check::fail(op, "the function calls the model that it has captured (", found->second,
                  "), whose gradients are not computed: use the copy that is its first argument");
}

// A copy of the model for one thread: nodes of a graph belong to one thread at a time.
class Worker {
 public:
  Worker(const char* op, const SampleFunction& f, const Layer& model, const std::vector<Tensor>& batch,
         const fit::detail::RandomKey& key)
      : op_(op),
        f_(f),
        from_(model),
        batch_(batch),
        key_(key),
        model_(model.clone()),
        buffers_(model_->named_buffers()) {
    for (const Tensor& p : model_->parameters())
      if (p.requires_grad()) wanted_.push_back(p);
    for (const auto& [name, buffer] : buffers_) versions_.push_back(buffer.version());
  }

  std::vector<Tensor> sample(std::int64_t i, Derivatives derivatives) {
    const EnableGrad recorded;
    const KeyedDraws draws(key_.seed, key_.call, static_cast<std::uint64_t>(i));
    std::vector<Tensor> row;
    for (const Tensor& field : batch_) row.push_back(slice(field, 0, i, i + 1));
    const Tensor y = f_(*model_, row);
    if (i == 0) expect_copy(op_, from_, y);
    std::vector<Tensor> all = derivatives(y, wanted_);
    for (std::size_t k = 0; k < buffers_.size(); ++k)
      if (buffers_[k].second.version() != versions_[k])
        check::fail(op_, "the buffer ", buffers_[k].first,
                    " changed: a layer that keeps statistics of batches mixes their examples; call eval() on it");
    return all;
  }

  const std::vector<Tensor>& wanted() const { return wanted_; }

 private:
  const char* op_;
  const SampleFunction& f_;
  const Layer& from_;
  const std::vector<Tensor>& batch_;
  const fit::detail::RandomKey key_;
  std::shared_ptr<Layer> model_;
  StateDict buffers_;
  std::vector<std::uint32_t> versions_;
  std::vector<Tensor> wanted_;
};

// The derivatives of all examples, one behind the other.
class Rows {
 public:
  Rows(const char* op, const std::vector<Tensor>& first, std::int64_t samples) : op_(op) {
    for (const Tensor& v : first) {
      all_.push_back(Tensor::empty(v.shape().inserted(0, samples), v.dtype()));
      memory_.push_back(all_.back().fresh<char>());
    }
    write(0, first);
  }
  // Several threads may write different rows.
  void write(std::int64_t i, const std::vector<Tensor>& values) const {
    for (std::size_t k = 0; k < values.size(); ++k) {
      const Shape first = all_[k].shape().erased(0);
      if (values[k].shape() != first || values[k].dtype() != all_[k].dtype())
        check::fail(op_, "example ", i, " gives derivatives ", values[k].dtype(), ' ', values[k].shape(),
                    ", example 0 ", all_[k].dtype(), ' ', first, ": the outputs of all must be of one shape and type");
      const std::int64_t bytes = values[k].numel() * size_of(values[k].dtype());
      std::memcpy(memory_[k] + i * bytes, values[k].raw(), static_cast<std::size_t>(bytes));
    }
  }
  const std::vector<Tensor>& all() const { return all_; }

 private:
  const char* op_;
  std::vector<Tensor> all_;
  std::vector<char*> memory_;
};

std::vector<Tensor> of_samples(const char* op, const SampleFunction& f, const Layer& model,
                               const std::vector<Tensor>& batch, Derivatives derivatives) {
  if (batch.empty()) check::fail(op, "no tensors are given: the batch has at least one");
  for (const Tensor& field : batch) {
    check::defined(op, "a tensor of the batch", field);
    if (field.rank() == 0 || field.size(0) == 0 || batch[0].size(0) != field.size(0))
      check::fail(op, "the batch has tensors of shapes ", batch[0].shape(), " and ", field.shape(),
                  ": all must be [B, …] with the same B >= 1");
  }
  const std::int64_t samples = batch[0].size(0);
  const fit::detail::RandomKey key = default_generator().next();
  Worker first(op, f, model, batch, key);
  const Rows rows(op, first.sample(0, derivatives), samples);
  constexpr std::int64_t grain = 4;  // a step costs several microseconds, and each thread clones the model
  parallel_for(samples - 1, grain, [&](std::int64_t begin, std::int64_t end) {
    Worker own(op, f, model, batch, key);
    for (std::int64_t i = begin + 1; i <= end; ++i) rows.write(i, own.sample(i, derivatives));
  });

  std::vector<Tensor> by_parameter;
  std::size_t next = 0;
  for (const Tensor& p : model.parameters()) by_parameter.push_back(p.requires_grad() ? rows.all()[next++] : Tensor());
  return by_parameter;
}

}  // namespace

std::vector<Tensor> per_sample_grad(const SampleFunction& loss, const Layer& model, const std::vector<Tensor>& batch) {
  return of_samples("per_sample_grad", loss, model, batch, [](const Tensor& y, const std::vector<Tensor>& wanted) {
    check::defined("per_sample_grad", "the loss", y);
    if (y.numel() != 1)
      check::fail("per_sample_grad", "the loss of one example has shape ", y.shape(),
                  ": it must have one element; per_sample_jacobian() takes others");
    std::vector<Tensor> g = grad({y}, wanted, allow_unused);
    for (std::size_t i = 0; i < g.size(); ++i)
      if (!g[i].defined()) g[i] = zeros_like(wanted[i]);
    return g;
  });
}

std::vector<Tensor> per_sample_jacobian(const SampleFunction& f, const Layer& model, const std::vector<Tensor>& batch) {
  return of_samples("per_sample_jacobian", f, model, batch, [](const Tensor& y, const std::vector<Tensor>& wanted) {
    check::defined("per_sample_jacobian", "the output", y);
    return jacobian(y.rank() > 0 && y.size(0) == 1 ? squeeze(y, 0) : y, wanted);
  });
}

}  // namespace fit::nn::detail
