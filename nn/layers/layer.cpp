#include "fit/nn/layer.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <ostream>
#include <set>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include "fit/nn/init.hpp"
#include "fit/random.hpp"
#include "load.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace detail {

// All members that live. Layers are made and destroyed on any thread.
struct Members {
  std::mutex mutex;
  Member* first = nullptr;

  static Members& all() {
    static Members* const members = new Members;  // never destroyed: layers may be static objects
    return *members;
  }
  void add(Member* m) noexcept {
    const std::lock_guard<std::mutex> lock(mutex);
    m->previous_ = nullptr;
    m->next_ = first;
    if (first) first->previous_ = m;
    first = m;
  }
  void remove(Member* m) noexcept {
    const std::lock_guard<std::mutex> lock(mutex);
    (m->previous_ ? m->previous_->next_ : first) = m->next_;
    if (m->next_) m->next_->previous_ = m->previous_;
  }
  std::vector<const Member*> within(const void* begin, std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex);
    std::vector<const Member*> found;
    const char* const from = static_cast<const char*>(begin);
    for (const Member* m = first; m; m = m->next_)
      if (const char* at = reinterpret_cast<const char*>(m); at >= from && at < from + bytes) found.push_back(m);
    std::sort(found.begin(), found.end());
    return found;
  }
};

Member::Member(Kind kind) noexcept : kind_(kind) { Members::all().add(this); }
Member::~Member() { Members::all().remove(this); }

}  // namespace detail

namespace {

std::vector<Field> list_of(Layer& layer) {
  Fields f;
  layer.fields(f);
  return f.list();
}

// fields() is not const because one list serves for reading and writing. It only lists, so a const layer can be asked
// as well; this is the one place that casts, and its callers only read.
std::vector<Field> list_of(const Layer& layer) { return list_of(const_cast<Layer&>(layer)); }

// Calls f(dotted name, field) for every defined parameter and buffer, here and below.
template <class L, class F>
void each_value(L& layer, const F& f, const std::string& prefix = {}) {
  for (const Field& field : list_of(layer)) {
    if (field.layer)
      each_value(static_cast<L&>(*field.layer), f, prefix + field.name + '.');
    else if (field.value().defined())
      f(prefix + field.name, field);
  }
}

// Gives `t` the type and the elements of `other` without changing which tensor it is.
void become(Tensor& t, Tensor other) {
  const bool trained = t.requires_grad();
  if (trained) t.requires_grad_(false);
  std::swap(t.impl()->storage, other.impl()->storage);
  std::swap(t.impl()->offset, other.impl()->offset);
  std::swap(t.impl()->dtype, other.impl()->dtype);
  if (trained) t.requires_grad_();
}

// make() may draw numbers, which clone() overwrites: the program's must not move on for that.
class KeepGenerator {
 public:
  KeepGenerator() = default;
  ~KeepGenerator() { default_generator() = before_; }
  KeepGenerator(const KeepGenerator&) = delete;
  KeepGenerator& operator=(const KeepGenerator&) = delete;

 private:
  Generator before_ = default_generator();
};

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
    if (is_floating(value.dtype()) && value.dtype() != dtype) become(value, value.detach().to(dtype));
  });
}

// ---- children -----------------------------------------------------------------------------------------------------

std::vector<std::pair<std::string, Layer*>> Layer::children() {
  std::vector<std::pair<std::string, Layer*>> all;
  for (const Field& field : list_of(*this))
    if (field.layer) all.emplace_back(field.name, field.layer);
  return all;
}

std::vector<std::pair<std::string, const Layer*>> Layer::children() const {
  std::vector<std::pair<std::string, const Layer*>> all;
  for (const Field& field : list_of(*this))
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

// ---- cloning ------------------------------------------------------------------------------------------------------

// Where the tensors of the original have gone.
struct Layer::Copied {
  std::unordered_map<const void*, Parameter*> parameters;
  std::unordered_map<const void*, Buffer*> buffers;
};

namespace {

// Gives `to` a copy of `from`, the same one if `from` was copied before.
template <class Value>
void copy_value(Value& to, const Value& from, std::unordered_map<const void*, Value*>& copied) {
  const auto [at, first] = copied.emplace(from.impl(), &to);
  to = !from.defined() ? Value() : first ? Value(from.detach().clone()) : *at->second;
}

}  // namespace

void Layer::take(const Layer& from, Copied& copied) {
  training_ = from.training_;
  const std::vector<Field> mine = list_of(*this), theirs = list_of(from);
  const auto alike = [](const Field& a, const Field& b) {
    return a.name == b.name && !a.layer == !b.layer && !a.parameter == !b.parameter;
  };
  if (!std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), alike))
    check::fail("clone", "make() of ", name(), " gives a layer with other members: pass it the same arguments");
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i].layer) {
      mine[i].layer->take(*theirs[i].layer, copied);
    } else if (mine[i].buffer) {
      copy_value(*mine[i].buffer, *theirs[i].buffer, copied.buffers);
    } else {
      copy_value(*mine[i].parameter, *theirs[i].parameter, copied.parameters);
      if (theirs[i].parameter->frozen()) mine[i].parameter->freeze();
    }
  }
}

std::shared_ptr<Layer> Layer::make() const {
  check::fail("clone", name(), " does not say how another one is made: override make()");
}

std::shared_ptr<Layer> Layer::made_like(const Layer& layer) {
  std::shared_ptr<Layer> made = layer.make();
  if (!made || typeid(*made) != typeid(layer))
    check::fail("clone", "make() of ", layer.name(), " gives a ", made ? made->name() : "null pointer",
                ": it must give a ", layer.name());
  return made;
}

std::shared_ptr<Layer> Layer::clone() const {
  const KeepGenerator keep;
  const init::Skip values;
  std::shared_ptr<Layer> copy = made_like(*this);
  Copied copied;
  copy->take(*this, copied);
  return copy;
}

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

// ---- the check of the list ----------------------------------------------------------------------------------------

namespace {

// Takes down the address of every member that is listed, here and below.
void collect(const Layer& layer, std::unordered_set<const detail::Member*>& listed) {
  std::set<std::string> names;
  for (const Field& field : list_of(layer)) {
    if (field.name.empty() || field.name.find('.') != std::string::npos)
      check::fail("check_fields", layer.name(), " lists the name '", field.name, "': it must be a word without dots");
    if (!names.insert(field.name).second)
      check::fail("check_fields", layer.name(), " lists the name '", field.name, "' twice");
    if (field.layer) {
      listed.insert(field.layer);
      collect(*field.layer, listed);
    } else if (field.parameter) {
      listed.insert(field.parameter);
    } else {
      listed.insert(field.buffer);
    }
  }
}

}  // namespace

void detail::check_fields(const Layer& layer, const void* begin, std::size_t bytes) {
  std::unordered_set<const Member*> listed{&layer};
  collect(layer, listed);
  for (const Member* m : Members::all().within(begin, bytes)) {
    if (listed.count(m)) continue;
    const char* const kind = m->kind() == Member::Kind::parameter ? "Parameter"
                             : m->kind() == Member::Kind::buffer  ? "Buffer"
                                                                  : "Layer";
    const std::ptrdiff_t at = reinterpret_cast<const char*>(m) - static_cast<const char*>(begin);
    check::fail("check_fields", layer.name(), " holds a ", kind, " (", at, " of its ", bytes,
                " bytes from the front) that fields() does not list");
  }
}

}  // namespace fit::nn
