#include "kernels/simd/isa.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "fit/detail/thread_state.hpp"

namespace fit::kernels {
namespace {

#if defined(__x86_64__)
// Whether the processor has AMX for BFloat16 and int8, and the system grants its registers to this process. They
// enlarge the saved state of a thread, so the process must request them once (Linux:
// Documentation/arch/x86/xstate.rst).
bool amx_granted() {
#if defined(__linux__)
  // LCOV_EXCL_START(avx512_bf16): asked only where there are instructions for BFloat16.
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24, amx_int8 = 1u << 25,
                     all = amx_bf16 | amx_tile | amx_int8;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & all) != all) return false;
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, request, tile_data) == 0;
  return granted;
  // LCOV_EXCL_STOP
#else
  return false;
#endif
}

bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1u << 4;
}

#if defined(FIT_ONLY_ISA)  // see CMakeLists.txt
constexpr Isa narrowest = Isa::FIT_ONLY_ISA, widest = narrowest == Isa::avx512 ? Isa::amx
                                                      : narrowest == Isa::avx2 ? Isa::avx2_vnni
                                                                               : narrowest;
#else
constexpr Isa narrowest = Isa::base, widest = Isa::amx;
#endif
int fastest_streams() {
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") ? 8 : 4;  // LCOV_EXCL_BR_LINE: a machine has one kind of processor
}
// LCOV_EXCL_START: a machine has one kind of processor.
bool available(Isa i) {
  if (i < narrowest || i > widest || i == Isa::neon) return false;
  if (i == Isa::base) return true;
  // These built-ins also check that the system saves the wide registers.
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (i == Isa::avx2 || i == Isa::avx2_vnni) return avx2 && (i == Isa::avx2 || has_avx_vnni());
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("fma");
  if (i == Isa::avx512) return avx512;
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  if (i == Isa::avx512_vnni) return vnni;
  return vnni && __builtin_cpu_supports("avx512bf16") && (i == Isa::avx512_bf16 || amx_granted());
}
// LCOV_EXCL_STOP
#else
#if defined(__aarch64__)
constexpr Isa narrowest = Isa::neon;
#else
constexpr Isa narrowest = Isa::base;
#endif
bool available(Isa i) { return i == narrowest; }
int fastest_streams() { return 4; }
#endif

// From wide to narrow.
constexpr struct {
  Isa isa;
  const char* name;
} sets[] = {{Isa::amx, "amx"},
            {Isa::avx512_bf16, "avx512_bf16"},
            {Isa::avx512_vnni, "avx512_vnni"},
            {Isa::avx512, "avx512"},
            {Isa::avx2_vnni, "avx2_vnni"},
            {Isa::avx2, "avx2"},
            {Isa::neon, "neon"},
            {Isa::base, "base"}};

Isa initial() {
  const char* const asked = std::getenv("FIT_ISA");
  Isa limit = Isa::amx;
  for (const auto& set : sets)
    if (asked && std::strcmp(asked, set.name) == 0) limit = set.isa;
  for (const auto& set : sets)
    if (set.isa <= limit && available(set.isa)) return set.isa;
  return narrowest;  // LCOV_EXCL_LINE: a build for wider instructions than the processor has
}

}  // namespace

// Set before main. Static objects of other files that run earlier see `base`, which works on every processor.
Isa chosen_isa = initial();

int memory_streams = fastest_streams();

Isa isa() { return chosen_isa; }

Isa narrow_isa() { return detail::thread_state.reproducible ? std::min(chosen_isa, Isa::avx512) : chosen_isa; }

const char* isa_name(Isa i) {
  const auto* const set = std::find_if(std::begin(sets), std::end(sets), [i](const auto& s) { return s.isa == i; });
  return set->name;
}

bool set_isa(Isa i) {
  if (!available(i)) return false;
  chosen_isa = i;
  return true;
}

}  // namespace fit::kernels
