#include <cmath>
#include <numeric>

#include "fit/nn/data/data.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::data {
namespace {

void check_number(const char* op, std::int64_t i, std::int64_t size) {
  if (i < 0 || i >= size) check::fail(op, "there is no example ", i, ": there are ", size);
}

}  // namespace

std::size_t Batch::checked(std::size_t field) const {
  if (field >= size())
    check::fail("Batch", "there is no field ", field, ": there are ", size(), ", those that the dataset gives");
  return field;
}

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  if (tensors_.empty()) check::fail("TensorDataset", "no tensors are given: at least one is needed");
  for (const Tensor& x : tensors_) {
    check::defined("TensorDataset", "a tensor", x);
    if (x.rank() == 0) check::fail("TensorDataset", "a tensor has shape []: its first axis must run over the examples");
    if (x.size(0) != size())
      check::fail("TensorDataset", "the tensors have shapes ", tensors_[0].shape(), " and ", x.shape(),
                  ": the first sizes must be equal");
  }
}

Example TensorDataset::get(std::int64_t i) const {
  check_number("TensorDataset", i, size());
  Example e;
  for (const Tensor& x : tensors_) e.push_back(x[i]);
  return e;
}

ListDataset::ListDataset(std::vector<Example> examples) : examples_(std::move(examples)) {}

Example ListDataset::get(std::int64_t i) const {
  check_number("ListDataset", i, size());
  Example e = examples_[i];
  for (Tensor& x : e)
    if (x.defined()) x = x.clone();  // a transform may write to it
  return e;
}

Subset::Subset(SharedDataset dataset, std::vector<std::int64_t> ids)
    : dataset_(std::move(dataset)), ids_(std::move(ids)) {
  for (const std::int64_t i : ids_) check_number("Subset", i, dataset_->size());
}

Example Subset::get(std::int64_t i) const {
  check_number("Subset", i, size());
  return dataset_->get(ids_[i]);
}

std::vector<Subset> random_split(const SharedDataset& dataset, const std::vector<std::int64_t>& sizes, Generator& g) {
  std::int64_t sum = 0;
  for (const std::int64_t n : sizes) {
    if (n < 0 || n > dataset->size() - sum)
      check::fail("random_split", "a size is ", n, ", those before it sum up to ", sum, ": all sum up to the ",
                  dataset->size(), " examples there are");
    sum += n;
  }
  if (sum != dataset->size())
    check::fail("random_split", "the sizes sum up to ", sum, ": it must be the ", dataset->size(),
                " examples there are");
  const std::vector<std::int64_t> order = randperm(sum, g).to_vector<std::int64_t>();
  std::vector<Subset> parts;
  auto at = order.begin();
  for (const std::int64_t n : sizes) {
    parts.emplace_back(dataset, std::vector<std::int64_t>(at, at + n));
    at += n;
  }
  return parts;
}

std::vector<Subset> random_split(const SharedDataset& dataset, const std::vector<double>& shares, Generator& g) {
  double sum = 0;
  std::vector<std::int64_t> sizes;
  for (const double share : shares) {
    if (!(share >= 0 && share <= 1)) check::fail("random_split", "a share is ", share, ": it must be in 0 … 1");
    sum += share;
    sizes.push_back(static_cast<std::int64_t>(share * static_cast<double>(dataset->size())));
  }
  if (!(std::abs(sum - 1) < 1e-6)) check::fail("random_split", "the shares sum up to ", sum, ": it must be 1");
  std::int64_t left = dataset->size() - std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  for (std::size_t part = 0; left > 0; part = (part + 1) % sizes.size(), --left) ++sizes[part];
  return random_split(dataset, sizes, g);
}

// ---- collating examples into a batch -------------------------------------------------------------------------------

namespace {

void check_fields(const char* op, const std::vector<Example>& examples) {
  if (examples.empty()) check::fail(op, "there are no examples: a batch has at least one");
  for (const Example& e : examples)
    if (e.size() != examples[0].size())
      check::fail(op, "the examples have ", examples[0].size(), " and ", e.size(), " fields: all must have as many");
}

// Pads x [n, …] with rows of `value` up to `length`.
Tensor padded(const Tensor& x, std::int64_t length, Scalar value) {
  if (x.size(0) == length) return x;
  return cat({x, full(x.shape().with(0, length - x.size(0)), value, x.dtype())});
}

}  // namespace

Batch stack_collate(const std::vector<Example>& examples) {
  check_fields("stack_collate", examples);
  Batch batch;
  for (std::size_t field = 0; field < examples[0].size(); ++field) {
    std::vector<Tensor> column;
    for (const Example& e : examples) {
      column.push_back(e[field]);
      if (e[field].shape() != column[0].shape())
        check::fail("stack_collate", "field ", field, " has shapes ", column[0].shape(), " and ", e[field].shape(),
                    ": they must be equal (pad_collate fills up sequences)");
    }
    batch.push_back(stack(column));
  }
  return batch;
}

Collate pad_collate(std::vector<Scalar> padding) {
  return [padding = std::move(padding)](const std::vector<Example>& examples) {
    check_fields("pad_collate", examples);
    const std::size_t fields = examples[0].size();
    if (padding.size() != fields)
      check::fail("pad_collate", "there are ", padding.size(), " numbers to pad with, and ", fields,
                  " fields: there must be as many");
    if (fields == 0 || examples[0][0].rank() == 0)
      check::fail("pad_collate", "the first field must be a sequence: its mask is part of the batch");
    std::vector<Example> filled(examples.size());
    for (std::size_t field = 0; field < fields; ++field) {
      std::int64_t longest = 0;
      for (const Example& e : examples)
        if (e[field].rank() > 0) longest = std::max(longest, e[field].size(0));
      for (std::size_t i = 0; i < examples.size(); ++i) {
        const Tensor& x = examples[i][field];
        filled[i].push_back(x.rank() > 0 ? padded(x, longest, padding[field]) : x);
      }
    }
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const Tensor real = padded(ones({examples[i][0].size(0)}, boolean), filled[i][0].size(0), false);
      filled[i].push_back(unsqueeze(real, 0));  // (1, T), stacked (B, 1, T)
    }
    return stack_collate(filled);
  };
}

Batch pack_collate(const std::vector<Example>& examples) {
  constexpr const char* op = "pack_collate";
  check_fields(op, examples);
  if (examples[0].empty() || examples[0][0].rank() == 0)
    check::fail(op, "the first field must be a sequence: its examples are numbered");
  std::vector<Tensor> ids, positions;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Example& e = examples[i];
    const std::int64_t length = e[0].size(0);
    for (std::size_t field = 0; field < e.size(); ++field)
      if (e[field].rank() > 0 && (e[field].size(0) != length || length == 0))
        check::fail(op, "field ", field, " of example ", i, " is ", e[field].shape(), ", field 0 is ", e[0].shape(),
                    ": sequences of an example must have one length, which is not 0");
    ids.push_back(full({length}, static_cast<std::int64_t>(i), int64));
    positions.push_back(arange(length));
  }
  Batch batch;
  for (std::size_t field = 0; field < examples[0].size(); ++field) {
    std::vector<Tensor> column;
    for (const Example& e : examples) column.push_back(e[field]);
    batch.push_back(column[0].rank() == 0 ? stack(column) : unsqueeze(cat(column), 0));
  }
  batch.push_back(unsqueeze(cat(ids), 0));
  batch.push_back(unsqueeze(cat(positions), 0));
  return batch;
}

}  // namespace fit::data
