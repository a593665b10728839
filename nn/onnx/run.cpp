#include "onnx/run.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <unordered_map>

#include "fit/graph/graph.hpp"
#include "layer/innermost_name.hpp"

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
    operations.push_back(std::move(o));
  }

 private:
  std::unordered_map<const Layer*, std::string> names_;
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
  Recorder recorder(model);
  Run result{{}, inputs, {}, {}};
  {
    const EnableGrad recording;
    const Observe watching(recorder);
    result.outputs = run(inputs);
  }
  result.operations = std::move(recorder.operations);
  return result;
}

}  // namespace fit::nn::onnx
