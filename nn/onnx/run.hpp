#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/joined.hpp"
#include "fit/graph/observer.hpp"
#include "fit/nn/layer/layer.hpp"

// What a model did in a run.
namespace fit::nn::onnx {

inline constexpr const char* save_onnx_op = "save_onnx";

/// An OpAttribute that outlives its operation.
struct Attribute {
  OpAttribute::Kind kind;
  std::int64_t integer = 0;
  double number = 0;
  std::vector<std::int64_t> integers{};
  Tensor tensor{};

  /// "3", "[1, 2]".
  std::string text() const;
};
/// Whether the numbers of both are equal. NaN equals NaN.
bool same_numbers(const Attribute& a, const Attribute& b);

struct Operation {
  std::string op, layer;  // layer: the path
  std::vector<Tensor> inputs, outputs;
  std::vector<std::uint32_t> versions;  // of the outputs
  std::map<std::string, Attribute> attributes;

  /// "[save_onnx] the operation matmul in h.0.mlp".
  std::string where() const;
  template <class... Why>
  [[noreturn]] void fail(const Why&... why) const {
    throw Error(joined(where(), ' ', why...));
  }
};

struct Run {
  std::vector<Operation> operations;
  std::vector<Tensor> inputs, outputs;
  std::vector<Tensor> conditions;     // of the inputs, and integers that were computed from these conditions
  std::optional<std::size_t> axis{};  // the free axis that has another size; none: other values
};

/// Whether x has the elements of one of the run's conditions. They may be the same in all runs, as those of x == 0.
bool is_condition(const Run& run, const Tensor& x);

/// Whether both did the same operations with the same tensors.
bool alike(const Run& a, const Run& b);

/// Calls run(inputs) and records its operations.
Run record_run(const Layer& model, const std::vector<Tensor>& inputs,
               const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& run);

}  // namespace fit::nn::onnx
