#pragma once
#include "kernels/simd/isa_namespace.hpp"

// Kernels are compiled for several instruction sets; the widest available one is chosen at run time. A file named
// *.simd.cpp is compiled once for each set (see CMakeLists.txt); FIT_ISA is the tag of the set. All symbols of these
// files are specific to their set. Otherwise the linker could merge two versions of one inline function. Their own
// functions are in an anonymous namespace, those of headers in FIT_ISA_NAMESPACE. They export one table of functions, a
// template on the tag. tests/checks/code/weak_symbols.sh looks for other symbols.
//
// Each header states errors in units in the last place; tests check them against long double with odd sizes and
// unaligned memory (tests/core/*_kernels_test.cpp, gemm*_test.cpp). "Rounded by operation" means: the error is at most
// the sum of half a unit for every operation of the formula (running error analysis, tests/support/rounding.hpp). A sum
// of n terms in c chains of additions is within (n / c + 6) / 2 units of the sum of their magnitudes.
namespace fit::kernels {

struct isa_base {};
struct isa_neon {};
struct isa_avx2 {};
struct isa_avx512 {};

// From narrow to wide. `base` is SSE2, which every x86-64 processor has; every arm64 processor has `neon`. An x86-64
// processor has all sets up to its widest, except neon, and perhaps avx2_vnni. avx2_vnni equals avx2 and the last three
// equal avx512 for all kernels except those of narrow types, which select their own functions: avx2_vnni and
// avx512_vnni multiply int8, avx512_bf16 and amx bfloat16, too.
enum class Isa { base, neon, avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16, amx };

/// The widest set of this processor and system, read once. The environment variable FIT_ISA (base, neon, avx2,
/// avx2_vnni, avx512, avx512_vnni, avx512_bf16, amx) is an upper limit. If no set up to it is available, the narrowest
/// of the architecture is used.
Isa isa();
/// For tests: selects another set. Returns false if it is not available.
bool set_isa(Isa i);

/// The set for products of narrow types, bfloat16 and int8: isa(), but without their instructions in the mode
/// Reproducible, since they round otherwise (fit/matmul/reproducible.hpp).
Isa narrow_isa();

/// Its name in FIT_ISA.
const char* isa_name(Isa i);

extern Isa chosen_isa;

/// The number of parallel streams with which a core reads memory fastest; each reads its own pages. 8 on Intel's
/// processors (a Sapphire Rapids reads 10 GB/s in one stream, 16 in eight), otherwise 4 (a Zen 5 reads 36 GB/s in four,
/// 30 in eight). It changes no result. Tests set it.
extern int memory_streams;

/// The table of a kernel family for this processor. `table` is a function template <class IsaTag, …>. The other
/// arguments are those of the template after the first.
#if defined(FIT_ONLY_ISA)
#define FIT_KERNELS(table, ...) (table<::fit::kernels::FIT_ONLY_ISA_TAG, __VA_ARGS__>())
#elif defined(__x86_64__)
#define FIT_KERNELS(table, ...)                                                                                 \
  (::fit::kernels::chosen_isa >= ::fit::kernels::Isa::avx512 ? table<::fit::kernels::isa_avx512, __VA_ARGS__>() \
   : ::fit::kernels::chosen_isa >= ::fit::kernels::Isa::avx2 ? table<::fit::kernels::isa_avx2, __VA_ARGS__>()   \
                                                             : table<::fit::kernels::isa_base, __VA_ARGS__>())
#elif defined(__aarch64__)
#define FIT_KERNELS(table, ...) (table<::fit::kernels::isa_neon, __VA_ARGS__>())
#else
#define FIT_KERNELS(table, ...) (table<::fit::kernels::isa_base, __VA_ARGS__>())
#endif

}  // namespace fit::kernels
