#pragma once
#include "kernels/simd/isa_namespace.hpp"

// Kernels are compiled several times, for growing instruction sets, and the widest that the processor has is chosen at
// run time. A file named *.simd.cpp is compiled once for each (see CMakeLists.txt); FIT_ISA names the tag of the set.
// Whatever such a file compiles bears the name of its set, so that the linker takes none for that of another: its own
// functions lie in an anonymous namespace, those of headers in FIT_ISA_NAMESPACE, and what leaves it is a table of
// functions, a template on the tag. tests/checks/weak_symbols.sh looks for others.
//
// Errors are stated in each header in units in the last place, and tested against long double with odd sizes and
// unaligned memory (tests/core/*_kernels_test.cpp, gemm*_test.cpp). "Rounded by operation" means: a result is within
// what half a unit for every operation of the formula adds up to (running error analysis, tests/support/rounding.hpp),
// and a sum of n terms in c chains of additions within (n / c + 6) / 2 units of the sum of their magnitudes.
namespace fit::kernels {

struct isa_base {};
struct isa_neon {};
struct isa_avx2 {};
struct isa_avx512 {};

// From narrow to wide. Every x86-64 processor has `base`, which is SSE2, every arm64 one `neon`; an x86-64 processor
// has all that stand before the widest it has, but neon. avx512_bf16 and amx are avx512 for all kernels but those of
// BFloat16, which choose among functions of their own (product_bf16.hpp).
enum class Isa { base, neon, avx2, avx512, avx512_bf16, amx };

/// The widest set that this processor and its system have, up to the one that FIT_ISA (base, neon, avx2, avx512,
/// avx512_bf16, amx) in the environment names, or else what each processor of its kind has. Read once.
Isa isa();
/// For tests: another set, which must be there. False if it isn't.
bool set_isa(Isa i);

extern Isa chosen_isa;

/// In so many streams side by side a core reads memory fastest, each in pages of its own: 8 on Intel's processors (a
/// Sapphire Rapids reads 10 GB/s in one stream, 16 in eight), else 4 (a Zen 5 reads 36 GB/s in four, 30 in eight). No
/// bit depends on it. Tests set it.
extern int memory_streams;

/// The table of a kernel family for this processor: `table` is a function template <class IsaTag, class T>.
#if defined(FIT_ONLY_ISA)
#define FIT_KERNELS(table, T) (table<::fit::kernels::FIT_ONLY_ISA_TAG, T>())
#elif defined(__x86_64__)
#define FIT_KERNELS(table, T)                                                                         \
  (::fit::kernels::chosen_isa >= ::fit::kernels::Isa::avx512 ? table<::fit::kernels::isa_avx512, T>() \
   : ::fit::kernels::chosen_isa == ::fit::kernels::Isa::avx2 ? table<::fit::kernels::isa_avx2, T>()   \
                                                             : table<::fit::kernels::isa_base, T>())
#elif defined(__aarch64__)
#define FIT_KERNELS(table, T) (table<::fit::kernels::isa_neon, T>())
#else
#define FIT_KERNELS(table, T) (table<::fit::kernels::isa_base, T>())
#endif

}  // namespace fit::kernels
