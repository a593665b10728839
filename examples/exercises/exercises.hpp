#pragma once
#include <any>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "fit/fit.hpp"

/// Exercises: a function to write, and properties that tell whether it is right. `examples/run exercises` lists them.
namespace exercises {

using namespace fit;

/// The functions of one file, registered under the exercise's name when the program starts.
struct Functions {
  Functions(const std::string& name, std::vector<std::any> functions);
  /// Function i. Throws Error if it has another signature.
  template <class F>
  F* get(std::size_t i) const {
    const auto* const f = i < all.size() ? std::any_cast<F*>(&all[i]) : nullptr;
    if (!f) throw Error("[exercise] keep the functions' parameters, results and order in the line EXERCISE(…)");
    return *f;
  }
  std::vector<std::any> all;
};

/// Prints which properties hold.
class Properties {
 public:
  /// A property that throws does not hold; its message is printed.
  void holds(const std::string& what, const std::function<bool()>& property);
  int failed() const { return failed_; }
  int count() const { return count_; }

 private:
  int count_ = 0, failed_ = 0;
};

/// One exercise. Later hints say more.
struct Exercise {
  std::string name, about;
  std::vector<std::string> hints;
  void (*check)(Properties&, const Functions&);
};

/// All exercises, in the order in which they build on each other.
const std::vector<Exercise>& all();

}  // namespace exercises

/// Stands at the end of a file: EXERCISE(causal, causal_attention).
#define EXERCISE(name, ...) const exercises::Functions exercise_##name(#name, {__VA_ARGS__});
