#include "onnx/run.hpp"

#include "fit/graph/graph.hpp"

namespace fit::nn::onnx {
namespace {

class Recorder final : public Observer {
 public:
  explicit Recorder(const Layer& model) {
    for (const auto& [name, layer] : model.named_layers()) names_.emplace(layer, name);
  }
  std::vector<Operation> operations;

  void op_recorded(const OpEvent& e) override {
    if (e.in_backward) return;
    Operation o;
    o.op = e.op;
    for (const LayerCall* call = innermost_call(); call; call = call->outer)
      if (const auto found = names_.find(&call->layer); found != names_.end()) {
        o.layer = found->second;
        break;
      }
    for (int i = 0; i < e.inputs.size(); ++i) o.inputs.push_back(e.inputs[i]);
    for (int i = 0; i < e.output_count; ++i) {
      o.outputs.push_back(e.outputs[i]);
      o.versions.push_back(e.outputs[i].defined() ? e.outputs[i].version() : 0);
    }
    for (const OpAttribute& a : e.attributes) {
      Attribute kept{a.kind()};
      if (a.kind() == OpAttribute::Kind::tensor)
        kept.tensor = a.tensor();
      else if (a.kind() == OpAttribute::Kind::integers)
        kept.integers.assign(a.integers().begin(), a.integers().end());
      else
        kept.integer = a.integer(), kept.number = a.number();
      o.attributes.emplace(a.name(), std::move(kept));
    }
    operations.push_back(std::move(o));
  }

 private:
  std::unordered_map<const Layer*, std::string> names_;
};

}  // namespace

std::string Operation::where() const {
  return "[save_onnx] the operation " + op + (layer.empty() ? "" : " in " + layer);
}

Run record_run(const Layer& model, const std::vector<Tensor>& inputs,
               const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& run) {
  Recorder recorder(model);
  Run result{{}, inputs, {}};
  {
    const EnableGrad recording;
    const Observe watching(recorder);
    result.outputs = run(inputs);
  }
  result.operations = std::move(recorder.operations);
  return result;
}

}  // namespace fit::nn::onnx
