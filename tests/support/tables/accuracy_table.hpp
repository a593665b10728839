#pragma once
#include <map>
#include <string>
#include <type_traits>

// The table of docs/accuracy.md: the allowed errors of functions in units in the last place.
namespace fit::test {

/// A line of the table: the largest error that was found, where it was, and the allowed error, in float32 (narrow) and
/// float64 (wide); and the logarithm to base 2 of how many numbers of float32 were tried.
struct Accuracy {
  double narrow = 0, narrow_at = 0, narrow_bound = 0, wide = 0, wide_at = 0, wide_bound = 0;
  int log_points = 0;
};

/// The lines by "function quantity", such as "exp value".
const std::map<std::string, Accuracy>& accuracy_table();

/// The allowed error in T. Throws Error if the table has no such line.
template <class T>
double accuracy_bound(const std::string& name);

}  // namespace fit::test
