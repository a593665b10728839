#include "onnx/run.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "fit/graph/graph.hpp"
#include "layer/innermost_name.hpp"

namespace fit::nn::onnx {
namespace {

class Recorder final : public Observer {
 public:
  Recorder(const Layer& model, const std::vector<Tensor>& inputs) {
    for (const auto& [name, layer] : model.named_layers()) names_.emplace(layer, name);
    for (const Tensor& x : inputs) depend(x);
  }
  std::vector<Operation> operations;
  std::vector<Tensor> conditions;

  void op_recorded(const OpEvent& e) override {
    if (e.in_backward) return;
    Operation o;
    o.op = e.op;
    o.layer = innermost_name(names_);
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
    if (any_of(e, dependent_))
      for (const Tensor& y : o.outputs) depend(y);
    operations.push_back(std::move(o));
  }
  void op_unrecorded(const OpEvent& e) override {
    if (!any_of(e, dependent_)) return;
    const Tensor& y = e.outputs[0];
    depend(y);
    if (y.numel() == 0 || !(y.dtype() == boolean || any_of(e, conditional_))) return;
    conditional_.insert(y.raw());
    conditions.push_back(y);
  }

 private:
  // Tensors by their elements, which reshape() shares. Those that are noted live as long as the recorder.
  using Elements = std::unordered_set<const void*>;
  void depend(const Tensor& x) {
    if (x.defined() && x.numel() > 0) dependent_.insert(x.raw());
  }
  static bool any_of(const OpEvent& e, const Elements& noted) {
    const auto is_noted = [&](const Tensor& x) { return x.defined() && noted.count(x.raw()) > 0; };
    for (int i = 0; i < e.inputs.size(); ++i)
      if (is_noted(e.inputs[i])) return true;
    return std::any_of(e.attributes.begin(), e.attributes.end(), [&](const OpAttribute& a) {
      return a.kind() == OpAttribute::Kind::tensor && is_noted(a.tensor());
    });
  }

  std::unordered_map<const Layer*, std::string> names_;
  Elements dependent_;    // on the inputs
  Elements conditional_;  // of conditions
};

bool alike(const Tensor& a, const Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || (a.dtype() == b.dtype() && a.rank() == b.rank()));
}
bool alike(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return alike(x, y); });
}
bool alike(const Operation& a, const Operation& b) {
  return a.op == b.op && alike(a.inputs, b.inputs) && alike(a.outputs, b.outputs) &&
         std::equal(a.attributes.begin(), a.attributes.end(), b.attributes.begin(), b.attributes.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && x.second.kind == y.second.kind &&
                             alike(x.second.tensor, y.second.tensor);
                    });
}

// Where each tensor that a run reads comes from: the number of an input or result; 0 if from elsewhere.
std::vector<std::size_t> sources(const Run& run) {
  std::unordered_map<const void*, std::size_t> numbers;
  std::vector<std::size_t> all;
  std::size_t next = 0;
  const auto made = [&](const Tensor& x) {
    ++next;
    if (x.defined()) numbers[x.impl()] = next;
  };
  const auto read = [&](const Tensor& x) {
    const auto found = x.defined() ? numbers.find(x.impl()) : numbers.end();
    all.push_back(found == numbers.end() ? 0 : found->second);
  };
  for (const Tensor& x : run.inputs) made(x);
  for (const Operation& o : run.operations) {
    for (const Tensor& x : o.inputs) read(x);
    for (const auto& [name, a] : o.attributes) read(a.tensor);
    for (const Tensor& y : o.outputs) made(y);
  }
  for (const Tensor& y : run.outputs) read(y);
  return all;
}

}  // namespace

bool same_numbers(const Attribute& a, const Attribute& b) {
  const bool both_nan = std::isnan(a.number) && std::isnan(b.number);
  return a.integer == b.integer && (a.number == b.number || both_nan) && a.integers == b.integers;
}

bool is_condition(const Run& run, const Tensor& x) {
  return x.numel() > 0 &&
         std::any_of(run.conditions.begin(), run.conditions.end(), [&](const Tensor& y) { return y.raw() == x.raw(); });
}

bool alike(const Run& a, const Run& b) {
  return std::equal(a.operations.begin(), a.operations.end(), b.operations.begin(), b.operations.end(),
                    [](const Operation& x, const Operation& y) { return alike(x, y); }) &&
         alike(a.outputs, b.outputs) && sources(a) == sources(b);
}

std::string Attribute::text() const {
  if (kind == OpAttribute::Kind::integer) return std::to_string(integer);
  if (kind != OpAttribute::Kind::integers) return (std::ostringstream() << number).str();
  std::string all;
  for (const std::int64_t i : integers) all += (all.empty() ? "" : ", ") + std::to_string(i);
  return '[' + all + ']';
}

std::string Operation::where() const {
  return joined('[', save_onnx_op, "] the operation ", op, layer.empty() ? "" : " in ", layer);
}

Run record_run(const Layer& model, const std::vector<Tensor>& inputs,
               const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& run) {
  Recorder recorder(model, inputs);
  Run result{{}, inputs, {}, {}, {}};
  {
    const EnableGrad recording;
    const Observe watching(recorder);
    result.outputs = run(inputs);
  }
  result.operations = std::move(recorder.operations);
  result.conditions = std::move(recorder.conditions);
  return result;
}

}  // namespace fit::nn::onnx
