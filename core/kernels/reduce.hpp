#pragma once
#include <cstdint>

#include "kernels/isa.hpp"

// Reductions of float and double, accumulated in double. Rounded by operation in double, with at least 4 chains of
// additions; e^x 2 units in the last place; max, min and find are exact.
namespace fit::kernels {

// Folds a block of numbers into accumulators: for all k < kept and r < reduced,
//   acc[k] = combine(acc[k], term(x[ks k + rs r], centre[k])).
// The block is contiguous along one of its axes: rs = 1 (rows), or ks = 1 (columns; also where reduced = 1). `centre`
// may be null: 0.
template <class T>
using Fold = void (*)(double* acc, const T* x, const double* centre, std::int64_t kept, std::int64_t ks,
                      std::int64_t reduced, std::int64_t rs);

template <class T>
struct Reduce {
  Fold<T> sum;      // x
  Fold<T> squares;  // (x - centre)^2
  Fold<T> exps;     // e^(x - centre)
  Fold<T> prod;     // x, multiplied
  Fold<T> max;      // NaN wins
  Fold<T> min;
  // Index of the first element that is `value` or NaN; n if there is none.
  std::int64_t (*find)(const T* x, std::int64_t n, T value);
};

template <class IsaTag, class T>
const Reduce<T>& reduce_table();

template <class T>
const Reduce<T>& reduce() {
  return FIT_KERNELS(reduce_table, T);
}

}  // namespace fit::kernels
