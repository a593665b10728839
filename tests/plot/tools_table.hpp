#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fit/fit.hpp"
#include "support/callable.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

/// The table of tools: one row a tool, run with weights of every type, under Autocast and without
/// (tools_table_test.cpp). A layer has its rows in the table of layers. The rows of a family stand in
/// tools_<family>.cpp.
namespace fit::test {

/// The types that a model's weights may have.
struct WeightForm {
  const char* name;
  DType dtype;
  bool int8 = false, lora = false;
};
inline const WeightForm weight_forms[] = {
    {"float32", float32},    {"float64", float64},           {"bfloat16", bfloat16},
    {"int8", float32, true}, {"LoRA", float32, false, true}, {"LoRA on bfloat16", bfloat16, false, true},
};

/// What a tool is tried on: a small GPT, and tensors as they lie in it.
struct ToolSubject {
  explicit ToolSubject(const WeightForm& form, DType autocast = float32);

  Tensor logits() const { return model(ids); }
  Tensor loss() const { return model.loss(ids, targets); }
  /// Another model of the same form, with other values.
  nn::GPT twin() const;
  /// The model in float64 with the values that the weights stand for.
  nn::GPT exact() const;
  /// An optimiser's list has something to do.
  bool trains() const { return model.num_trainable_parameters() > 0; }
  /// The largest difference from float64 relative to the largest value that the form's digits explain.
  double tolerance() const;

  WeightForm form;
  DType autocast;
  nn::GPT model;
  Tensor ids, targets;  ///< [2, 5]
  Tensor stored;        ///< the head's weight as it is stored [11, 8]: int8 where the form is
  Tensor values;        ///< what it stands for, floating
  Directory folder;
};

/// One tool.
struct ToolRow {
  ToolRow(std::string header, std::string tool, Callable<void(ToolSubject&)> work)
      : header(std::move(header)), tool(std::move(tool)), work(std::move(work)) {}
  /// These forms get an Error that says so.
  ToolRow refuses(const std::vector<std::string>& forms, const std::string& message) && {
    for (const std::string& form : forms) refused[form] = message;
    return std::move(*this);
  }

  std::string header;  ///< "nn/models/generate.hpp"
  std::string tool;
  Callable<void(ToolSubject&)> work;
  std::map<std::string, std::string> refused;  ///< part of the message, by form
};

/// Whether the values are near, relative to the largest of `exact`.
inline bool near(const Tensor& x, const Tensor& exact, double tolerance) {
  const NoGrad no_grad;
  const Tensor a = x.detach().to(float64), b = exact.detach().to(float64);
  return a.shape() == b.shape() && max(abs(a - b)).item() <= tolerance * max(abs(b)).item();
}

/// A static one of these adds a family to the table.
struct RegisterTools {
  explicit RegisterTools(std::vector<ToolRow> (*family)());
};

}  // namespace fit::test
