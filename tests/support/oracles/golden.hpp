#pragma once
#include <string>
#include <utility>
#include <vector>

#include "fit/detail/function_ref.hpp"
#include "fit/tensor/tensor.hpp"

namespace fit::test {

/// A case of tests/golden: tensors that PyTorch computed in float64 (see generate.py).
class Golden {
 public:
  explicit Golden(std::string name) : name_(std::move(name)) {}
  bool has(const std::string& tensor) const;
  /// A new tensor in float64, int64 or boolean. Throws Error if the case has no tensor with this name.
  Tensor operator()(const std::string& tensor) const;

 private:
  std::string name_;
};

/// A tensor of the case in another type, as a leaf that requires a gradient.
Tensor leaf_of(const Golden& golden, const std::string& tensor, DType dtype);

/// Checks type, shape and values: to 13 digits in float64, 1e-5 in float32.
void check_close(const std::string& what, const Tensor& ours, const Tensor& theirs, DType dtype);

/// Checks the output y of f for the named inputs, and their gradients, in both precisions.
void check_function(const std::string& name, const std::vector<std::string>& inputs,
                    FunctionRef<Tensor(const std::vector<Tensor>&)> f);

}  // namespace fit::test
