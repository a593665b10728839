#include "common/lent.hpp"
#include "fit/nn/layer/parameter.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> flat;
  for (const Tensor& p : parameters) {
    check::floating("parameters_to_vector", "parameters", p);
    flat.push_back(flatten(p));
  }
  return flat.empty() ? zeros({0}) : cat(flat);
}

void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters) {
  constexpr const char* op = "vector_to_parameters";
  check::floating(op, "vector", vector);
  std::vector<std::int64_t> sizes;
  std::int64_t total = 0;
  for (const Tensor& p : parameters) {
    check::floating(op, "parameters", p);
    sizes.push_back(p.numel());
    total += p.numel();
  }
  if (vector.shape() != Shape{total})
    check::fail(op, "vector is ", vector.shape(), ", the parameters have ", total, " elements together: it must be [",
                total, "]");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    check_not_lent(op, std::to_string(i), parameters[i], "would undo this");
  const NoGrad not_recorded;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < parameters.size(); at += sizes[i++])
    Tensor(parameters[i]).copy_(slice(vector, 0, at, at + sizes[i]).reshape(parameters[i].shape()));
}

}  // namespace fit::nn
