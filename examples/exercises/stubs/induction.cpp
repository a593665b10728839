// Exercise induction: find the induction head.
//
// weights are [H, n, n], tokens the n names. An induction head attends from a token to the one *behind* an earlier
// occurrence of the same token. Return the head that does so most, on average over the queries that have an earlier
// occurrence.
#include "exercises/exercises.hpp"

using namespace fit;

std::int64_t find_induction_head(const Tensor& weights, const std::vector<std::string>& tokens) { return 0; }

EXERCISE(induction, find_induction_head)
