#pragma once
#include <map>
#include <string>
#include <type_traits>

// The table of docs/accuracy.md: how many units in the last place a function may be off.
namespace fit::test {

/// A line of it, for float32 and float64: what was measured, and what is allowed.
struct Accuracy {
  double narrow = 0, narrow_bound = 0, wide = 0, wide_bound = 0;
};

/// By "function quantity", as "exp value".
const std::map<std::string, Accuracy>& accuracy_table();

/// What is allowed in T. Throws Error if the table has no such line.
template <class T>
double accuracy_bound(const std::string& name);

}  // namespace fit::test
