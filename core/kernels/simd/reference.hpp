#pragma once
#include <cstdint>

// The reference implementation of each family of kernels is in its header, in namespace reference. It reads like the
// formula and is a template on the type of number. Tests compare the kernels with it (tests/core/*_kernels_test.cpp,
// gemm*_test.cpp), using numbers that carry a bound of their rounding errors.
namespace fit::kernels::reference {

/// Adds numbers. (A specialisation in the tests bounds the error of a sum in any order.)
template <class N>
struct Adder {
  N total = N(0);
  void add(const N& n) { total = total + n; }
  N result() const { return total; }
};

/// term(0) + … + term(n - 1)
template <class N, class Term>
N sum_of(std::int64_t n, const Term& term) {
  Adder<N> sum;
  for (std::int64_t i = 0; i < n; ++i) sum.add(term(i));
  return sum.result();
}

}  // namespace fit::kernels::reference
