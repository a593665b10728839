#include <map>

#include "fit/graph/autocast.hpp"
#include "fit/graph/graph.hpp"
#include "fit/io/npz.hpp"
#include "fit/onnx.hpp"
#include "fit/ops/ops.hpp"
#include "io/atomic_file.hpp"
#include "onnx/graph.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

using onnx::FixedAxis;
using onnx::Graph;
using onnx::Runs;
using onnx::save_onnx_op;
using Inputs = std::vector<Tensor>;
using Call = Runs::Call;

// Each value of the file has a name of its own.
void check_names(const Layer& model, const SaveONNXOptions& options) {
  std::map<std::string, std::string> all;  // what has the name
  const auto add = [&](const std::string& name, const std::string& what) {
    if (name.empty()) check::fail(save_onnx_op, "the name of ", what, " is empty: each needs one");
    const auto [found, is_new] = all.emplace(name, what);
    if (!is_new)
      check::fail(save_onnx_op, found->second, " and ", what, " have the name ", name,
                  ": each needs its own; see input_names, output_name and output_names");
  };
  for (std::size_t i = 0; i < options.input_names().size(); ++i)
    add(options.input_names()[i], "input " + std::to_string(i));
  for (std::size_t i = 0; i < options.output_names().size(); ++i)
    add(options.output_names()[i], "result " + std::to_string(i));
  for (const auto& [name, x] : model.state_dict()) add(name, "a tensor of the model");
}

// "input_0", "input_1", …
std::vector<std::string> numbered(const std::string& kind, std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(kind + std::to_string(i));
  return names;
}

// The options with a name for each input and result.
SaveONNXOptions with_names(const Layer& model, SaveONNXOptions options, std::size_t inputs, std::size_t results) {
  if (results == 0) check::fail(save_onnx_op, "the run has no result: a file needs one or more");
  if (options.input_names().empty()) options.input_names(numbered("input_", inputs));
  if (options.output_names().empty()) options.output_names(numbered("output_", results));
  if (options.output_names().size() != results)
    check::fail(save_onnx_op, "there are ", results, " results and ", options.output_names().size(),
                " output_names: each needs one");
  check_names(model, options);
  return options;
}

void check_inputs(const Layer& model, const Inputs& inputs, const SaveONNXOptions& options) {
  if (model.training()) check::fail(save_onnx_op, "the model is in training mode: call eval() first");
  if (autocast_dtype() != float32)
    check::fail(save_onnx_op, "Autocast is active, and a file has no bfloat16: call it where no Autocast is");
  for (const auto& [name, x] : model.state_dict())
    if (x.defined() && x.dtype() == int8)
      check::fail(save_onnx_op, "the model is quantised (", name,
                  " is int8), which has no ONNX form: save it before quantize_()");
  if (inputs.empty()) check::fail(save_onnx_op, "there are no example inputs: the run needs one or more");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined()) check::fail(save_onnx_op, "input ", i, " is undefined");
  if (!options.input_names().empty() && options.input_names().size() != inputs.size())
    check::fail(save_onnx_op, "there are ", inputs.size(), " inputs and ", options.input_names().size(),
                " input_names: each needs one");
  if (options.opset() != 17 && options.opset() != 23)
    check::fail(save_onnx_op, "opset is ", options.opset(), ": it must be 17 or 23");
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

ONNXInfo save_onnx(const std::string& path, const Layer& model, const Inputs& given, const Call& call,
                   const SaveONNXOptions& given_options) {
  check_inputs(model, given, given_options);
  Inputs inputs;  // of their own: a tensor that is given twice is two inputs
  for (const Tensor& x : given) inputs.push_back(x.detach().clone());
  Runs runs(model, inputs, given_options.more_axes(), call);
  const SaveONNXOptions options = with_names(model, given_options, inputs.size(), runs.all[0].outputs.size());
  for (;;) try {
      Graph graph(model, runs, options);
      graph.build();
      io::write_file(save_onnx_op, path, graph.bytes());
      if (!options.sample().empty()) save_sample(inputs, call, options);
      ONNXInfo info = graph.info();
      info.fixed_axes = runs.fixed;
      return info;
    } catch (const FixedAxis& axis) {
      runs.fix(axis.axis, axis.why);
    }
}

ONNXInfo save_onnx(const std::string& path, const Layer& model, const Inputs& inputs,
                   const std::function<Tensor(const Inputs&)>& call, const SaveONNXOptions& given) {
  const Call one = [&call](const Inputs& x) { return std::vector<Tensor>{call(x)}; };
  return save_onnx(path, model, inputs, one, SaveONNXOptions(given).output_names({given.output_name()}));
}

ONNXInfo save_onnx_with_cache(const std::string& path, const GPT& model, const SaveONNXOptions& given) {
  const std::int64_t context = model.options().context_length();
  if (context < 5) check::fail(save_onnx_op, "context_length is ", context, ": a cache needs 5");
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
