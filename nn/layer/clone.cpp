#include <algorithm>
#include <unordered_map>

#include "fit/nn/layer/init.hpp"
#include "fit/nn/layer/layer.hpp"
#include "layer/list.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

// Whether clone() runs on this thread. Only clone() may copy layers.
thread_local bool cloning = false;

}  // namespace

Layer::Layer(const Layer& o) : Member(o), training_(o.training_) {
  if (!cloning)
    check::fail(o.name().c_str(),
                "a layer is not copied: move it, or clone() it. (What has a destructor of its own, or ",
                "a member that may throw when it is moved, is copied where it seems to be moved, unless it declares ",
                "how it is moved: ", o.name(), "(", o.name(), "&&) noexcept = default)");
}

// Maps tensors and layers of the original to their copies.
struct Layer::Copies {
  std::unordered_map<const void*, Tensor> tensors;
  std::unordered_map<const Layer*, std::shared_ptr<Layer>> layers;

  // Sets `value` to a copy of `original`. Values that share a tensor share the copy.
  template <class Value>
  void copy(Value& value, const Value& original) {
    if (!original.defined()) {
      value = Value();
      return;
    }
    const auto [at, is_new] = tensors.try_emplace(original.impl());
    if (is_new) {
      at->second = original.detach().clone();
      if (original.requires_grad()) at->second.requires_grad_();
    }
    value.hold(at->second);
  }
};

void Layer::take(const Layer& from, Copies& copies) {
  training_ = from.training_;
  const std::vector<Field> mine = ListOf::raw(*this).list(), theirs = ListOf::checked(from);
  const auto alike = [](const Field& a, const Field& b) {
    return a.name == b.name && !a.layer == !b.layer && !a.parameter == !b.parameter;
  };
  if (!std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), alike))
    check::fail("clone", "copy() of ", name(), " gives a layer with other members: make it with the same arguments");
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const Field &to = mine[i], &original = theirs[i];
    if (to.parameter)
      copies.copy(*to.parameter, *original.parameter);
    else if (to.buffer)
      copies.copy(*to.buffer, *original.buffer);
    else if (to.put)
      to.put(to.held, original.layer->clone(copies));
    else if (to.layer != original.layer)
      to.layer->take(*original.layer, copies);
    else
      check::fail("clone", name(), " lists '", to.name, "', which it neither holds nor shares: list the ",
                  "std::shared_ptr");
  }
}

std::shared_ptr<Layer> Layer::copy() const {
  const Fields f = ListOf::raw(*this);
  if (!f.copy_)
    check::fail("clone", name(), " has a member that can't be copied: override copy(), to make another ", name(),
                " with the same arguments");
  return std::shared_ptr<Layer>(f.copy_(*this));
}

std::shared_ptr<Layer> Layer::clone(Copies& copies) const {
  if (const auto found = copies.layers.find(this); found != copies.layers.end()) return found->second;
  ListOf::checked(*this);
  std::shared_ptr<Layer> made;
  {
    const fit::detail::Scoped allowed(cloning, true);
    const init::Skip values;
    made = copy();
  }
  const Layer* const copied = made.get();
  if (!copied || typeid(*copied) != typeid(*this))
    check::fail("clone", "copy() of ", name(), " gives a ", made ? made->name() : "null pointer", ": it must give a ",
                name());
  made->take(*this, copies);
  copies.layers[this] = made;
  return made;
}

std::shared_ptr<Layer> Layer::clone() const {
  each_value(*this, [](const std::string&, const Field&) {});  // throws for a layer that holds itself
  Copies copies;
  return clone(copies);
}

}  // namespace fit::nn
