#pragma once
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "onnx/runs.hpp"

namespace onnx {
class ModelProto;
class ValueInfoProto;
}  // namespace onnx

// The ONNX graph that a run makes.
namespace fit::nn::onnx {

using Name = std::string;  // of a value in the file; empty: an optional input that is left out
using Names = std::vector<Name>;
using Integers = std::vector<std::int64_t>;

/// A size: the coefficient times the sizes of free axes.
struct Size {
  std::int64_t coefficient = 1;
  std::vector<std::size_t> axes{};
};

/// Builds the file.
class Graph {
 public:
  Graph(const Layer& model, const Runs& runs, const SaveONNXOptions& options);
  ~Graph();
  /// Writes the nodes that the output needs, once. Throws Error, or FixedAxis.
  void build();
  std::string bytes() const;
  ONNXInfo info() const;

  // ---- for rows
  /// A node with one result.
  Name node(const char* op, const Names& inputs, const std::map<std::string, Integers>& integers = {},
            const std::map<std::string, float>& numbers = {});
  Names nodes(const char* op, const Names& inputs, std::size_t outputs,
              const std::map<std::string, Integers>& integers = {}, const std::map<std::string, float>& numbers = {});
  Name cast(const Name& x, DType to);
  /// A constant.
  Name constant(const Tensor& x, const Name& name = {});
  Name number(double value, DType dtype);
  Name integers(const Integers& values);
  /// A reduction along axes, such as ReduceMean.
  Name reduced(const char* op, const Name& x, const Integers& axes, bool keeps);
  std::int64_t opset() const { return options_.opset(); }
  /// The sizes as a list [n] of int64.
  Name sizes(const std::vector<Size>& sizes);
  /// The value of a tensor that operation `at` reads: `which` finds it in the operation of each run.
  Name value(std::size_t at, const std::function<const Tensor&(const Operation&)>& which);
  /// What these numbers, one for each run, are in terms of the free axes. Throws FixedAxis.
  Size explained(const Operation& o, const Integers& in_runs) const;

 private:
  friend class Row;
  Name fresh(const std::string& kind);  // a name that is not in use
  void name_value(const Tensor& x, const Name& name);
  std::vector<bool> needed() const;  // which operations the output needs
  void write(std::size_t at);
  void describe(::onnx::ValueInfoProto& to, const Name& name,
                const std::function<const Tensor&(const Run&)>& which) const;
  Name counted(const Operation& o, const std::vector<Tensor>& in_runs);
  Name filled(const Operation& o, const std::vector<Tensor>& in_runs);
  [[noreturn]] void refuse_constant(const Operation& o, const Tensor& x) const;
  Name constant_of(std::size_t at, const std::vector<Tensor>& in_runs);
  Name free_size(std::size_t axis);

  const Layer& model_;
  const Runs& runs_;
  const SaveONNXOptions& options_;
  std::unique_ptr<::onnx::ModelProto> file_;
  std::unordered_map<const void*, Name> names_;  // of tensors
  std::map<std::pair<const void*, std::string>, Name>
      by_elements_;                                   // by buffer and shape: handles to the same elements
  std::unordered_map<const void*, Name> parameters_;  // the model's names
  std::unordered_set<Name> used_;                     // names that the model or the options give
  std::map<Integers, Name> lists_;
  std::map<std::size_t, Name> free_sizes_;
  std::size_t made_ = 0;
};

/// One operation, while it is written.
class Row {
 public:
  Row(Graph& graph, std::size_t at) : g(graph), at_(at), o(graph.runs_.all[0].operations[at]) {}

  Graph& g;
  Name input(std::size_t i) const;
  /// The same in the type of the result, to which fit promotes operands.
  Name operand(std::size_t i) const;
  bool has(const char* name) const { return o.attributes.count(name) > 0; }
  bool has_input(std::size_t i) const { return i < o.inputs.size() && o.inputs[i].defined(); }
  /// Numbers that are the same in all runs.
  std::int64_t integer(const char* name) const { return fixed(name).integer; }
  double real(const char* name) const { return fixed(name).number; }
  const Integers& integers(const char* name) const { return fixed(name).integers; }
  /// A tensor attribute.
  Name tensor(const char* name) const;
  const Tensor& raw_tensor(const char* name) const { return attribute(name).tensor; }
  const Tensor& x(std::size_t i = 0) const { return o.inputs[i]; }
  const Tensor& y(std::size_t i = 0) const { return o.outputs[i]; }
  std::size_t outputs() const { return o.outputs.size(); }
  /// The sizes of a result, or the numbers of an attribute, in terms of the free axes.
  std::vector<Size> shape(std::size_t output = 0) const;
  std::vector<Size> list(const char* name) const;
  Size size(const char* name) const;
  /// Whether an input has no elements, in all runs.
  bool is_empty(std::size_t i) const;
  /// Whether an index takes all of an axis, in all runs.
  bool takes_all(int axis) const;
  const std::string& op() const { return o.op; }
  template <class... Why>
  [[noreturn]] void fail(const Why&... why) const {
    o.fail(why...);
  }

 private:
  const Attribute& attribute(const char* name) const;
  const Attribute& fixed(const char* name) const;  // throws Error or FixedAxis if runs differ
  std::vector<Size> explained(const std::function<Integers(const Operation&)>& of) const;
  std::size_t at_;
  const Operation& o;
};

/// How an operation is written: its results' names. Null if it has no ONNX form.
using Write = Names (*)(const Row&);
Write find_row(const std::string& op);

// Of windows.cpp.
Names convolution(const Row& r);
Names transposed_convolution(const Row& r);
Names max_pool(const Row& r);
Names average_pool(const Row& r);
Names interpolate(const Row& r);
Names batch_norm(const Row& r);
Names group_norm(const Row& r);
Names glu(const Row& r);
Names lstm(const Row& r);
Names gru(const Row& r);
Names rnn(const Row& r);
/// Attention as one node of opset 23, or as products and a softmax.
Names write_attention(const Row& r);

}  // namespace fit::nn::onnx
