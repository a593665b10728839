#include "fit/nn/layer.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <ostream>
#include <typeinfo>
#include <unordered_set>

#include "layers/list.hpp"
#include "load.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

// Gives `t` the type and the elements of `other` without changing which tensor it is.
void rebind_storage(Tensor& t, Tensor other) {
  const bool trained = t.requires_grad();
  if (trained) t.requires_grad_(false);
  std::swap(t.impl()->storage, other.impl()->storage);
  std::swap(t.impl()->offset, other.impl()->offset);
  std::swap(t.impl()->dtype, other.impl()->dtype);
  if (trained) t.requires_grad_();
}

}  // namespace

// ---- parameters ---------------------------------------------------------------------------------------------------

Parameter::Parameter(const Tensor& value) : Tensor(value.defined() ? value.detach() : value), Member(Kind::parameter) {
  if (defined()) requires_grad_();
}

void Parameter::freeze() {
  if (defined()) requires_grad_(false);
}

void Parameter::unfreeze() {
  if (defined()) requires_grad_();
}

StateDict Layer::named_parameters() const {
  StateDict all;
  std::unordered_set<const void*> seen;
  each_value(*this, [&](const std::string& name, const Field& field) {
    if (field.parameter && seen.insert(field.parameter->impl()).second) all.emplace_back(name, *field.parameter);
  });
  return all;
}

std::vector<Tensor> Layer::parameters() const {
  std::vector<Tensor> all;
  for (auto& [name, tensor] : named_parameters()) all.push_back(tensor);
  return all;
}

StateDict Layer::named_buffers() const {
  StateDict all;
  each_value(*this, [&](const std::string& name, const Field& field) {
    if (field.buffer) all.emplace_back(name, *field.buffer);
  });
  return all;
}

std::int64_t Layer::num_parameters(bool trainable_only) const {
  std::int64_t n = 0;
  for (const Tensor& p : parameters())
    if (p.requires_grad() || !trainable_only) n += p.numel();
  return n;
}

void Layer::zero_grad() {
  each_value(*this, [](const std::string&, const Field& field) {
    if (field.parameter) field.parameter->zero_grad();
  });
}

void Layer::freeze() {
  each_value(*this, [](const std::string&, const Field& field) {
    if (field.parameter) field.parameter->freeze();
  });
}

void Layer::unfreeze() {
  each_value(*this, [](const std::string&, const Field& field) {
    if (field.parameter) field.parameter->unfreeze();
  });
}

void Layer::to(DType dtype) {
  if (!is_floating(dtype)) check::fail("to", "dtype is ", dtype, ": the parameters of a layer are float32 or float64");
  each_value(*this, [&](const std::string&, const Field& field) {
    Tensor& value = field.value();
    if (is_floating(value.dtype()) && value.dtype() != dtype) rebind_storage(value, value.detach().to(dtype));
  });
}

// ---- children -----------------------------------------------------------------------------------------------------

std::vector<std::pair<std::string, Layer*>> Layer::children() {
  std::vector<std::pair<std::string, Layer*>> all;
  for (const Field& field : ListOf::checked(*this))
    if (field.layer) all.emplace_back(field.name, field.layer);
  return all;
}

std::vector<std::pair<std::string, const Layer*>> Layer::children() const {
  std::vector<std::pair<std::string, const Layer*>> all;
  for (const Field& field : ListOf::checked(*this))
    if (field.layer) all.emplace_back(field.name, field.layer);
  return all;
}

void Layer::apply(const std::function<void(Layer&)>& f) {
  for (auto& [name, child] : children()) child->apply(f);
  f(*this);
}

void Layer::train(bool on) {
  apply([on](Layer& layer) { layer.training_ = on; });
}

// ---- saving -------------------------------------------------------------------------------------------------------

StateDict Layer::state_dict() const {
  StateDict state;
  each_value(*this,
             [&](const std::string& name, const Field& field) { state.emplace_back(name, field.value().detach()); });
  return state;
}

void Layer::load_state_dict(const StateDict& state) { load_values("load_state_dict", name(), state_dict(), state); }

// ---- printing -----------------------------------------------------------------------------------------------------

std::string Layer::name() const {
  int status = 0;
  char* const readable = abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status);
  const std::string full = status == 0 ? readable : typeid(*this).name();
  std::free(readable);
  std::string last;  // what stands after the last "::" outside of template arguments
  int depth = 0;
  for (const char c : full) {
    depth += (c == '<') - (c == '>');
    if (depth > 0 || c == '>') continue;
    if (c == ':')
      last.clear();
    else
      last += c;
  }
  return last;
}

std::string Layer::str() const {
  std::string lines;
  for (const auto& [name, child] : children()) {
    lines += "\n  (" + name + "): ";
    for (const char c : child->str()) lines += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  const std::string arguments = describe();
  if (lines.empty()) return name() + '(' + arguments + ')';
  return name() + '(' + (arguments.empty() ? "" : "\n  " + arguments) + lines + "\n)";
}

std::ostream& operator<<(std::ostream& out, const Layer& layer) { return out << layer.str(); }

}  // namespace fit::nn
