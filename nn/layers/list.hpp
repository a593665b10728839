#pragma once
#include <string>
#include <vector>

#include "fit/nn/layer.hpp"

namespace fit::nn {

/// A layer's list. fields() is not const because one list serves for reading and writing. It only lists, so a const
/// layer can be asked as well; this is the one place that casts, and callers with a const layer only read.
class ListOf {
 public:
  /// As fields() gives it.
  static Fields raw(const Layer& layer) {
    Fields f;
    const_cast<Layer&>(layer).fields(f);
    return f;
  }
  /// The entries, once they have been held against the object (the first time, see Layer).
  static std::vector<Field> checked(const Layer& layer) {
    Fields f = raw(layer);
    if (layer.checked_.load(std::memory_order_relaxed) != &typeid(layer)) {
      check(layer, f);
      layer.checked_.store(&typeid(layer), std::memory_order_relaxed);
    }
    return std::move(f.list_);
  }

 private:
  static void check(const Layer& layer, const Fields& f);
  static void check_names(const Layer& layer, const Fields& f);
  static std::string neighbours(const Fields& f, const char* at);
};

/// Calls f(dotted name, field) for every defined parameter and buffer, here and below.
template <class F>
void each_value(const Layer& layer, const F& f, const std::string& prefix = {}) {
  for (const Field& field : ListOf::checked(layer)) {
    if (field.layer)
      each_value(*field.layer, f, prefix + field.name + '.');
    else if (field.value().defined())
      f(prefix + field.name, field);
  }
}

}  // namespace fit::nn
