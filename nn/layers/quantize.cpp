#include "fit/nn/layers/quantize.hpp"

#include <unordered_map>

#include "common/lent.hpp"
#include "common/pattern.hpp"
#include "fit/nn/layers/linear.hpp"
#include "layer/list.hpp"
#include "layer/parametrized.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

constexpr const char* quantize_op = "quantize_";

// A weight [out, in] and the name of its layer.
struct Weight {
  std::string layer;
  Parameter* parameter;
  std::string name() const { return layer.empty() ? "weight" : layer + ".weight"; }
};

std::vector<Weight> weights_of(Layer& model) {
  std::vector<Weight> all;
  for (const auto& [name, layer] : model.named_layers()) {
    if (auto* const linear = dynamic_cast<Linear*>(layer)) all.push_back({name, &linear->weight});
    if (auto* const table = dynamic_cast<Embedding*>(layer)) all.push_back({name, &table->weight});
  }
  return all;
}

// Throws Error if another parameter or buffer shares a tensor to quantise.
void expect_no_others(const Layer& model, const std::vector<Weight>& chosen) {
  std::unordered_map<const void*, const Weight*> held;
  for (const Weight& w : chosen) held.emplace(w.parameter->impl()->storage, &w);
  each_value(model, [&](const std::string& name, const Field& field) {
    const auto found = held.find(field.value().impl()->storage);
    if (found == held.end()) return;
    for (const Weight& w : chosen)
      if (w.parameter == field.parameter) return;
    check::fail(quantize_op, found->second->name(), " is shared with ", name,
                ", which is no weight of a Linear or an Embedding: it can't be quantised");
  });
}

// quantize(w) makes the matrix of a weight.
template <class Quantize>
std::vector<std::string> quantized(Layer& model, const std::vector<std::string>& layers, const Quantize& quantize) {
  const std::vector<Weight> all = weights_of(model);
  if (all.empty()) check::fail(quantize_op, model.name(), " has no Linear and no Embedding");
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const Weight& w : all) names.push_back(w.layer);
  const std::vector<std::size_t> matches = first_matches(quantize_op, layers, names);
  std::unordered_map<const void*, std::shared_ptr<detail::Parametrized>> tables;  // by original tensor
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (matches[i] == layers.size()) continue;
    const Parameter& p = *all[i].parameter;
    if (p.parametrized())
      check::fail(
          quantize_op, all[i].name(), " is ",
          detail::int8_of(p) ? "quantised already" : "parametrised: merge_lora() or remove_parametrization() first");
    check_not_lent(quantize_op, all[i].name(), p, "would restore a weight that the model no longer has");
    auto& table = tables[p.impl()];
    if (table) continue;
    try {
      table = std::make_shared<detail::Parametrized>(quantize(p.detach()));
    } catch (const Error& e) {
      check::fail(quantize_op, all[i].name(), ": ", e.what());
    }
  }
  std::vector<Weight> chosen;
  for (const Weight& w : all)
    if (!w.parameter->parametrized() && tables.count(w.parameter->impl()) > 0) chosen.push_back(w);
  expect_no_others(model, chosen);
  names.clear();
  for (const Weight& w : chosen) {
    names.push_back(w.layer);
    detail::ParametrizedOf::set(*w.parameter, tables.at(w.parameter->impl()));
  }
  model.freeze();
  return names;
}

}  // namespace

std::vector<std::string> quantize_(Layer& model, const Int8WeightOnlyOptions& o) {
  return quantized(model, o.layers(), [&](const Tensor& w) { return quantize(w, o.group_size()); });
}

std::vector<std::string> quantize_(Layer& model, const Int8DynamicActivationInt8WeightOptions& o) {
  return quantized(model, o.layers(),
                   [&](const Tensor& w) { return quantize(w, o.group_size(), Int8Activations::rounded); });
}

std::vector<std::string> quantize_(Layer& model, const Int4WeightOnlyOptions& o) {
  return quantized(model, o.layers(), [](const Tensor& w) { return quantize_int4(w); });
}

std::vector<std::string> quantize_(Layer& model, const Int8DynamicActivationInt4WeightOptions& o) {
  return quantized(model, o.layers(), [](const Tensor& w) { return quantize_int4(w, Int8Activations::rounded); });
}

}  // namespace fit::nn
