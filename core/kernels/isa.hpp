#pragma once

// Kernels are compiled several times, for growing instruction sets, and the widest that the processor has is chosen at
// run time. A file named *.simd.cpp is compiled once for each (see CMakeLists.txt), with FIT_ISA naming the tag; it
// holds templates on the tag and nothing else, so that no function compiled for a wide set can be taken for a plain
// one.
//
// Errors are stated in each header in units in the last place, and tested against long double with odd sizes and
// unaligned memory (tests/core/kernels_*_test.cpp). "Rounded by operation" means: a result is within what half a unit
// for every operation of the formula adds up to (running error analysis, tests/support/rounding.hpp), and a sum of n
// terms in c chains of additions within (n / c + 6) / 2 units of the sum of their magnitudes.
namespace fit::kernels {

struct isa_base {};
struct isa_avx2 {};
struct isa_avx512 {};

enum class Isa { base, avx2, avx512 };

/// The widest set that this processor and its system have, or the one that FIT_ISA (base, avx2, avx512) in the
/// environment names, if they have that. Read once.
Isa isa();
/// For tests: another set, which must be there. False if it isn't.
bool set_isa(Isa i);

extern Isa chosen_isa;

/// The table of a kernel family for this processor: `table` is a function template <class IsaTag, class T>.
#if defined(__x86_64__)
#define FIT_KERNELS(table, T)                                                                         \
  (::fit::kernels::chosen_isa == ::fit::kernels::Isa::avx512 ? table<::fit::kernels::isa_avx512, T>() \
   : ::fit::kernels::chosen_isa == ::fit::kernels::Isa::avx2 ? table<::fit::kernels::isa_avx2, T>()   \
                                                             : table<::fit::kernels::isa_base, T>())
#else
#define FIT_KERNELS(table, T) (table<::fit::kernels::isa_base, T>())
#endif

}  // namespace fit::kernels
