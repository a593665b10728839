#include "fit/nn/layer/layer.hpp"

#include <optional>
#include <ostream>
#include <string_view>
#include <typeinfo>
#include <unordered_set>

#include "common/class_name.hpp"
#include "common/load.hpp"
#include "common/pattern.hpp"
#include "common/retype.hpp"
#include "fit/base/memory.hpp"
#include "fit/tensor/lookup.hpp"
#include "layer/list.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

// ---- parameters ---------------------------------------------------------------------------------------------------

Parameter::Parameter(const Tensor& value) : TensorMember(Kind::parameter, value.defined() ? value.detach() : value) {
  if (defined()) requires_grad_();
}

namespace {

// The tensors that a kind of field holds, each under its first name.
template <class Value>
StateDict each_once(const Layer& layer, Value* Field::*kind) {
  StateDict all;
  std::unordered_set<const void*> seen;
  each_value(layer, [&](const std::string& name, const Field& field) {
    if (field.*kind && seen.insert((field.*kind)->impl()).second) all.emplace_back(name, *(field.*kind));
  });
  return all;
}

}  // namespace

StateDict Layer::named_parameters() const { return each_once(*this, &Field::parameter); }

StateDict Layer::named_parameters(const std::vector<std::string>& of) const {
  std::vector<bool> found(of.size());
  StateDict some;
  for (const auto& [name, parameter] : named_parameters()) {
    bool wanted = false;
    for (std::size_t i = 0; i < of.size(); ++i)
      if (!of[i].empty() && is_below(name, of[i])) found[i] = wanted = true;
    if (wanted) some.emplace_back(name, parameter);
  }
  for (std::size_t i = 0; i < of.size(); ++i)
    if (!found[i]) check::fail("named_parameters", name(), " has no parameter under '", of[i], "'");
  return some;
}

std::vector<std::pair<std::string, std::string>> Layer::saved_options() const { return {}; }

std::vector<Tensor> Layer::parameters() const {
  std::vector<Tensor> all;
  for (auto& [name, tensor] : named_parameters()) all.push_back(tensor);
  return all;
}

StateDict Layer::named_buffers() const { return each_once(*this, &Field::buffer); }

std::int64_t Layer::num_parameters() const {
  std::int64_t n = 0;
  for (const Tensor& p : parameters()) n += p.numel();
  return n;
}

std::int64_t Layer::num_trainable_parameters() const {
  std::int64_t n = 0;
  for (const Tensor& p : parameters())
    if (p.requires_grad()) n += p.numel();
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

Layer& Layer::to(DType dtype) {
  if (!is_floating(dtype))
    check::fail("to", "dtype is ", dtype, ": the parameters of a layer are bfloat16, float32 or float64");
  // Returns freed memory to the system on the way. So a model never needs memory for all parameters in both types.
  constexpr std::int64_t much = 16 << 20;
  std::int64_t given_up = 0;
  each_value(*this, [&](const std::string&, const Field& field) {
    Tensor& value = field.value();
    if (!is_floating(value.dtype()) || value.dtype() == dtype) return;
    given_up += value.numel() * size_of(value.dtype());
    retype(value, value.detach().to(dtype));
    if (given_up < much) return;
    empty_cache();
    given_up = 0;
  });
  return *this;
}

// ---- children -----------------------------------------------------------------------------------------------------

std::vector<std::pair<std::string, Layer*>> Layer::children() {
  std::vector<std::pair<std::string, Layer*>> all;
  for (const Field& field : ListOf::checked(*this))
    if (field.layer) all.emplace_back(field.name, field.layer);
  return all;
}

std::vector<std::pair<std::string, const Layer*>> Layer::children() const {
  const auto all = const_cast<Layer&>(*this).children();
  return {all.begin(), all.end()};
}

std::vector<std::pair<std::string, Layer*>> Layer::all_layers() const {
  std::vector<std::pair<std::string, Layer*>> all;
  std::unordered_set<const Layer*> seen;
  const std::function<void(const std::string&, Layer&)> walk = [&](const std::string& name, Layer& layer) {
    if (!seen.insert(&layer).second) return;
    all.emplace_back(name, &layer);
    for (auto& [child_name, child] : layer.children())
      walk(name.empty() ? child_name : name + '.' + child_name, *child);
  };
  walk({}, const_cast<Layer&>(*this));  // named_layers() const adds the const again
  return all;
}

namespace {

// The entry with this dotted name in `top` or its sublayers.
Field find(const char* op, Layer& top, const std::string& name) {
  std::string_view rest = name;
  Layer* layer = &top;
  while (layer) {
    Layer* next = nullptr;
    for (const Field& field : ListOf::checked(*layer)) {  // a field's name may contain dots: "blocks.0"
      const std::string_view own = field.name;
      if (rest == own) return field;
      if (field.layer && rest.size() > own.size() && rest.substr(0, own.size()) == own && rest[own.size()] == '.') {
        rest.remove_prefix(own.size() + 1);
        next = field.layer;
        break;
      }
    }
    layer = next;
  }
  std::vector<std::string> names;
  for (const auto& [own, below] : top.named_layers()) names.push_back(own);
  for (const auto& [own, p] : top.named_parameters()) names.push_back(own);
  const std::string* const near = most_similar(name, names);
  check::fail(op, top.name(), " has nothing that is called '", name, '\'',
              near ? ": the most similar name is '" + *near + "'" : std::string());
}

}  // namespace

Parameter& Layer::parameter(const std::string& name) {
  const Field found = find("parameter", *this, name);
  if (!found.parameter) check::fail("parameter", '\'', name, "' of ", this->name(), " is not a parameter");
  return *found.parameter;
}

const Parameter& Layer::parameter(const std::string& name) const { return const_cast<Layer*>(this)->parameter(name); }

Layer& Layer::layer(const std::string& name) {
  const Field found = find("layer", *this, name);
  if (!found.layer) check::fail("layer", '\'', name, "' of ", this->name(), " is not a layer");
  return *found.layer;
}

const Layer& Layer::layer(const std::string& name) const { return const_cast<Layer*>(this)->layer(name); }

void Layer::fail_class(const std::string& name, const Layer& found) const {
  check::fail("layer", '\'', name, "' of ", this->name(), " is a ", found.name(), ", not of the class wanted");
}

void Layer::replace(const std::string& name, const std::shared_ptr<Layer>& layer) {
  constexpr const char* op = "replace";
  const Field found = find(op, *this, name);
  if (!found.layer) check::fail(op, '\'', name, "' of ", this->name(), " is not a layer");
  if (!layer) check::fail(op, "the layer for '", name, "' is a null pointer");
  if (!found.put)
    check::fail(op, '\'', name, "' of ", this->name(), " is not held by a std::shared_ptr: assign to the member");
  if (!found.put(found.held, layer))
    check::fail(op, '\'', name, "' of ", this->name(), " is a ", found.layer->name(), ": a ", layer->name(),
                " does not fit there");
}

Tensor UnaryLayer::operator()(const Tensor& x) const {
  return within(
      *this, [this](const Tensor& given) { return forward(given); }, x);
}

namespace {

void apply_below(Layer& layer, const std::function<void(Layer&)>& f, const OnTheWay* above) {
  const OnTheWay here(layer, above);
  for (auto& [name, child] : layer.children()) apply_below(*child, f, &here);
  f(layer);
}

}  // namespace

void Layer::apply(const std::function<void(Layer&)>& f) { apply_below(*this, f, nullptr); }

void Layer::train(bool on) {
  apply([on](Layer& layer) { layer.training_ = on; });
}

// ---- where an Error was thrown ------------------------------------------------------------------------------------

namespace {

// The dotted name of a sublayer, if there is one. Reads the lists unchecked, because an Error is already in flight.
std::optional<std::string> way_to(const Layer& from, const void* inner) {
  const Fields f = ListOf::raw(from);
  for (const Field& field : f.list()) {
    if (!field.layer) continue;
    if (field.layer == inner) return field.name;
    if (const auto below = way_to(*field.layer, inner)) return field.name + '.' + *below;
  }
  return std::nullopt;
}

}  // namespace

void detail::add_layer_path(const Layer& layer, Error& e) {
  if (e.seen_from() == &layer) return;
  if (!e.seen_from() && layer.moved_from()) e = Error('[' + layer.name() + "] " + moved_from_text);
  std::string path;  // empty if the layer that threw is not a listed sublayer: then this layer is reported
  if (const auto way = e.seen_from() ? way_to(layer, e.seen_from()) : std::nullopt) {
    path = e.where();
    path = path.empty() ? *way : *way + '.' + path;
  }
  e.set_where(path, &layer);
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

std::string Layer::name() const { return class_name(typeid(*this)); }

namespace {

std::string text_of(const Layer& layer, const OnTheWay* above) {
  const OnTheWay here(layer, above);
  std::string lines;
  for (const auto& [name, child] : layer.children()) {
    lines += "\n  (" + name + "): ";
    for (const char c : text_of(*child, &here)) lines += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  const std::string arguments = layer.describe();
  if (lines.empty()) return layer.name() + '(' + arguments + ')';
  return layer.name() + '(' + (arguments.empty() ? "" : "\n  " + arguments) + lines + "\n)";
}

}  // namespace

std::string Layer::str() const { return text_of(*this, nullptr); }

std::ostream& operator<<(std::ostream& out, const Layer& layer) { return out << layer.str(); }

}  // namespace fit::nn
