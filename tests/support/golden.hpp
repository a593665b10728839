#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fit/tensor.hpp"

namespace fit::test {

/// A case of tests/golden: tensors that PyTorch computed in float64 (generate.py says how).
class Golden {
 public:
  explicit Golden(std::string name) : name_(std::move(name)) {}
  bool has(const std::string& tensor) const;
  /// float64, int64 or boolean; a new tensor each time. Throws Error if the case has none of that name.
  Tensor operator()(const std::string& tensor) const;

 private:
  std::string name_;
};

/// One of its tensors in another type, that wants a gradient.
Tensor leaf_of(const Golden& golden, const std::string& tensor, DType dtype);

/// Checks type, shape and values: to 13 digits in float64, 1e-5 in float32.
void check_close(const std::string& what, const Tensor& ours, const Tensor& theirs, DType dtype);

/// Checks f, in both precisions: its output y for the inputs that are named, and their gradients.
void check_function(const std::string& name, const std::vector<std::string>& inputs,
                    const std::function<Tensor(const std::vector<Tensor>&)>& f);

}  // namespace fit::test
