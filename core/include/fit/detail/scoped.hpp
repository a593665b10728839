#pragma once
#include <utility>

namespace fit::detail {

/// A guard: restores a variable when it is destroyed.
template <class T>
class Scoped {
 public:
  explicit Scoped(T& variable) : variable_(variable), before_(variable) {}
  /// Sets the variable to `value` first.
  Scoped(T& variable, T value) : variable_(variable), before_(std::exchange(variable, std::move(value))) {}
  ~Scoped() { variable_ = std::move(before_); }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;

 private:
  T& variable_;
  T before_;
};

}  // namespace fit::detail
