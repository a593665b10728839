#pragma once
#include <string>
#include <vector>

#include "fit/nn/layer/layer.hpp"

namespace fit::nn {

/// The text of errors about a layer for which Layer::moved_from() is true.
inline constexpr const char* moved_from_text =
    "this layer was moved from: use the one that std::move() made of it, or assign a new layer";

/// Reads a layer's list. fields() is not const, because the entries serve for reading and writing. Only this class
/// casts const away. Callers with a const layer only read.
class ListOf {
 public:
  /// The unchecked list.
  static Fields raw(const Layer& layer) {
    Fields f;
    const_cast<Layer&>(layer).fields(f);
    return f;
  }
  /// The entries. The first call checks that the list is complete (see Layer).
  static std::vector<Field> checked(const Layer& layer) {
    if (layer.moved_from()) fail_moved(layer);
    Fields f = raw(layer);
    if (layer.checked_.load(std::memory_order_relaxed) != &typeid(layer)) {
      check(layer, f);
      layer.checked_.store(&typeid(layer), std::memory_order_relaxed);
    }
    return std::move(f.list_);
  }
  /// Whether the layer's class defines a call operator, which calls no hook.
  static bool has_own_call(const Layer& layer) { return raw(layer).own_call_; }

 private:
  [[noreturn]] static void fail_moved(const Layer& layer);
  static void check(const Layer& layer, const Fields& f);
  static void check_names(const Layer& layer, const Fields& f);
  static std::string neighbours(const Fields& f, const char* at);
};

/// A layer on the way down through the lists, and those above it. Throws Error for a layer that holds itself.
class OnTheWay {
 public:
  explicit OnTheWay(const Layer& layer, const OnTheWay* above = nullptr);

 private:
  const Layer& layer_;
  const OnTheWay* const above_;
};

/// Calls f(dotted name, field) for every defined parameter and buffer of this layer and its sublayers.
template <class F>
void each_value(const Layer& layer, const F& f, const std::string& prefix = {}, const OnTheWay* above = nullptr) {
  const OnTheWay here(layer, above);
  for (const Field& field : ListOf::checked(layer)) {
    if (field.layer)
      each_value(*field.layer, f, prefix + field.name + '.', &here);
    else if (field.value().defined())
      f(prefix + field.name, field);
  }
}

}  // namespace fit::nn
