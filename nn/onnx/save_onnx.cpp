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
using Call = std::function<std::vector<Tensor>(const Inputs&)>;

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

// An axis that may be free, and the inputs that have it.
struct Candidate {
  ONNXAxis axis;
  std::vector<bool> has;
};

std::vector<Candidate> candidates(const Inputs& inputs, const std::vector<ONNXAxis>& more) {
  std::vector<Candidate> all;
  const auto add = [&](ONNXAxis axis, const auto& has) {
    Candidate c{std::move(axis), {}};
    std::int64_t size = -1;
    bool equal = true;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      c.has.push_back(has(inputs[i]));
      if (!c.has[i]) continue;
      if (size < 0) c.axis.input = i, size = inputs[i].size(c.axis.axis);
      equal = equal && size == inputs[i].size(c.axis.axis);
    }
    if (equal && size > 0) all.push_back(std::move(c));
  };
  const auto is_scalar = [](const Tensor& x) { return x.rank() == 0; };  // it has no batch
  if (std::none_of(inputs.begin(), inputs.end(), is_scalar)) add({"batch", 0, 0}, [](const Tensor&) { return true; });
  add({"sequence", 0, 1}, [](const Tensor& x) { return x.rank() == 2 || x.rank() == 3; });
  for (const ONNXAxis& axis : more) {
    if (axis.input >= inputs.size() || axis.axis < 0 || axis.axis >= inputs[axis.input].rank())
      throw Error(std::string(op) + "the axis " + axis.name + " is axis " + std::to_string(axis.axis) + " of input " +
                  std::to_string(axis.input) + ": there is none such");
    add(axis, [rank = inputs[axis.input].rank()](const Tensor& x) { return x.rank() == rank; });
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
                          const std::vector<ONNXAxis>& more, const Call& call) {
  for (const auto& [axis, has] : candidates(inputs, more)) {
    Inputs other;
    for (std::size_t i = 0; i < inputs.size(); ++i) other.push_back(has[i] ? resized(inputs[i], axis.axis) : inputs[i]);
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
  const std::vector<Tensor> outputs = call(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) all.emplace_back(options.output_names()[i], outputs[i]);
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
  if (options.opset() != 17 && options.opset() != 23)
    throw Error(std::string(op) + "opset is " + std::to_string(options.opset()) + ": it must be 17 or 23");
  Runs runs;
  runs.all.push_back(onnx::record_run(model, inputs, call));
  const std::size_t results = runs.all[0].outputs.size();
  if (options.output_names().empty()) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < results; ++i) names.push_back("output_" + std::to_string(i));
    options.output_names(std::move(names));
  }
  if (options.output_names().size() != results)
    throw Error(std::string(op) + "there are " + std::to_string(results) + " results and " +
                std::to_string(options.output_names().size()) + " output_names: each needs one");
  Inputs others;
  for (const Tensor& x : inputs) others.push_back(changed(x));
  runs.all.push_back(onnx::record_run(model, others, call));
  if (!alike(runs.all[0], runs.all[1]))
    throw Error(std::string(op) + "the model does other operations with other values: a file has those of one run");
  std::vector<std::string> fixed;
  run_with_other_sizes(runs, fixed, model, inputs, options.more_axes(), call);
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

ONNXInfo save_onnx(const std::string& path, const Layer& model, const Inputs& inputs,
                   const std::function<Tensor(const Inputs&)>& call, const SaveONNXOptions& given) {
  const Call one = [&call](const Inputs& x) { return std::vector<Tensor>{call(x)}; };
  return save_onnx(path, model, inputs, one, SaveONNXOptions(given).output_names({given.output_name()}));
}

ONNXInfo save_onnx_with_cache(const std::string& path, const GPT& model, const SaveONNXOptions& given) {
  const std::int64_t context = model.options().context_length();
  if (context < 4) throw Error(std::string(op) + "context_length is " + std::to_string(context) + ": a cache needs 4");
  const DType dtype = model.wte.weight.original().dtype();
  Inputs inputs{arange(4).reshape({2, 2}) % model.options().vocab_size()};
  std::vector<std::string> names{"ids"}, results{"logits"};
  for (const SequenceLayer& block : model.h) {
    const KVCache::LayerShape shape = block.cache_shape();
    const std::string layer = std::to_string((inputs.size() - 1) / 2);
    for (const auto& [kind, features] : {std::pair("keys_", shape.head_size), {"values_", shape.values()}}) {
      const Shape sizes{2, shape.kv_heads, 2, features};
      inputs.push_back((arange(sizes.numel()).to(dtype) * 0.01).reshape(sizes));
      names.push_back(std::string("past_") + kind + layer), results.push_back(kind + layer);
    }
  }
  const Call call = [&model](const Inputs& x) {
    std::vector<KVCache::Layer> past;
    for (std::size_t i = 1; i < x.size(); i += 2) past.push_back({x[i], x[i + 1]});
    std::vector<Tensor> all{model.forward(x[0], past)};
    for (const KVCache::Layer& layer : past) all.push_back(layer.keys), all.push_back(layer.values);
    return all;
  };
  const auto options = SaveONNXOptions(given).input_names(names).output_names(results).more_axes({{"past", 1, 2}});
  return save_onnx(path, model, inputs, call, options);
}

}  // namespace fit::nn
