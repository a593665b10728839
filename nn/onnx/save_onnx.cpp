#include <algorithm>

#include "fit/graph/graph.hpp"
#include "fit/io/npz.hpp"
#include "fit/onnx.hpp"
#include "fit/ops/ops.hpp"
#include "io/atomic_file.hpp"
#include "onnx/graph.hpp"

namespace fit::nn {
namespace {

using onnx::FixedAxis;
using onnx::Graph;
using onnx::Run;
using onnx::Runs;
using Inputs = std::vector<Tensor>;
using Call = std::function<Tensor(const Inputs&)>;

constexpr const char* op = "[save_onnx] ";

// Other values of the same kind: in the opposite order, and smaller.
Tensor changed(const Tensor& x) {
  const Tensor back = x.rank() > 0 && x.numel() > 0 ? flip(x, Axes()) : x;
  return is_floating(x.dtype()) ? back * 0.75 : back;
}

// x with another size of an axis: one less, or one more if it is 1.
Tensor resized(const Tensor& x, int axis) {
  const std::int64_t n = x.size(axis);
  return n > 1 ? slice(x, axis, 0, n - 1) : cat({x, x}, axis);
}

// The axes that may be free.
std::vector<ONNXAxis> candidates(const Inputs& inputs) {
  std::vector<ONNXAxis> all;
  for (const auto& [name, axis] : {std::pair("batch", 0), std::pair("sequence", 1)}) {
    std::int64_t size = -1;
    ONNXAxis found{name, 0, axis};
    bool equal = true;
    for (std::size_t i = inputs.size(); i-- > 0;) {
      if (inputs[i].rank() <= axis || inputs[i].rank() > 3) {
        equal = equal && axis > 0;  // an input without a batch
        continue;
      }
      equal = equal && (size < 0 || size == inputs[i].size(axis));
      size = inputs[i].size(axis), found.input = i;
    }
    if (equal && size > 0) all.push_back(found);
  }
  return all;
}

void check_inputs(const Layer& model, const Inputs& inputs, const SaveONNXOptions& options) {
  if (model.training()) throw Error(std::string(op) + "the model is in training mode: call eval() first");
  if (inputs.empty()) throw Error(std::string(op) + "there are no example inputs: the run needs one or more");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined()) throw Error(std::string(op) + "input " + std::to_string(i) + " is undefined");
  if (!options.input_names().empty() && options.input_names().size() != inputs.size())
    throw Error(std::string(op) + "there are " + std::to_string(inputs.size()) + " inputs and " +
                std::to_string(options.input_names().size()) + " input_names: each needs one");
}

// Whether both did the same operations.
bool alike(const Run& a, const Run& b) {
  return std::equal(a.operations.begin(), a.operations.end(), b.operations.begin(), b.operations.end(),
                    [](const auto& x, const auto& y) {
                      return x.op == y.op && x.inputs.size() == y.inputs.size() &&
                             x.outputs.size() == y.outputs.size() && x.attributes.size() == y.attributes.size();
                    });
}

// The runs with other sizes. An axis with which the model does something else is fixed.
void run_with_other_sizes(Runs& runs, std::vector<std::string>& fixed, const Layer& model, const Inputs& inputs,
                          const Call& call) {
  for (const ONNXAxis& axis : candidates(inputs)) {
    Inputs other;
    for (const Tensor& x : inputs) other.push_back(x.rank() > axis.axis && x.rank() <= 3 ? resized(x, axis.axis) : x);
    try {
      Run run = onnx::record_run(model, other, call);
      if (!alike(run, runs.all[0])) throw Error("the model does other operations with another size");
      runs.all.push_back(std::move(run));
      runs.axes.push_back(axis);
    } catch (const Error& error) {
      fixed.push_back(axis.name + ": " + error.what());
    }
  }
}

void save_sample(const Inputs& inputs, const Call& call, const SaveONNXOptions& options) {
  const NoGrad no_grad;
  StateDict all;
  for (std::size_t i = 0; i < inputs.size(); ++i) all.emplace_back(options.input_names()[i], inputs[i]);
  all.emplace_back(options.output_name(), call(inputs));
  save_npz(options.sample(), all);
}

}  // namespace

ONNXInfo save_onnx(const std::string& path, const Layer& model, const Inputs& inputs, const Call& call,
                   const SaveONNXOptions& given) {
  check_inputs(model, inputs, given);
  SaveONNXOptions options = given;
  if (options.input_names().empty()) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < inputs.size(); ++i) names.push_back("input_" + std::to_string(i));
    options.input_names(std::move(names));
  }
  Runs runs;
  runs.all.push_back(onnx::record_run(model, inputs, call));
  Inputs others;
  for (const Tensor& x : inputs) others.push_back(changed(x));
  runs.all.push_back(onnx::record_run(model, others, call));
  if (!alike(runs.all[0], runs.all[1]))
    throw Error(std::string(op) + "the model does other operations with other values: a file has those of one run");
  std::vector<std::string> fixed;
  run_with_other_sizes(runs, fixed, model, inputs, call);
  for (;;) try {
      Graph graph(model, runs, options);
      graph.build();
      io::write_file("save_onnx", path, graph.bytes());
      if (!options.sample().empty()) save_sample(inputs, call, options);
      ONNXInfo info = graph.info();
      info.fixed_axes = std::move(fixed);
      return info;
    } catch (const FixedAxis& axis) {
      const auto at = static_cast<std::ptrdiff_t>(axis.axis);
      fixed.push_back(runs.axes[axis.axis].name + ": " + axis.why);
      runs.axes.erase(runs.axes.begin() + at);
      runs.all.erase(runs.all.begin() + at + 2);
    }
}

}  // namespace fit::nn
