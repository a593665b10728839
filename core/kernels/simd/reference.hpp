#pragma once
#include <cstdint>

// The plain form of each family of kernels stands in its header, in namespace reference, and reads like its formula: a
// template on the type of number. The kernels are tested against it (tests/core/*_kernels_test.cpp, gemm*_test.cpp),
// with numbers that carry a bound of their rounding errors.
namespace fit::kernels::reference {

/// Adds numbers up. (That of the tests bounds the error of a sum in any order.)
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
