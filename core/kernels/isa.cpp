#include "kernels/isa.hpp"

#include <cstdlib>
#include <cstring>

namespace fit::kernels {
namespace {

bool available(Isa i) {
#if defined(__x86_64__)
  // These built-ins ask the system too, whether it saves the wide registers.
  __builtin_cpu_init();
  if (i == Isa::avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
  if (i == Isa::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return i == Isa::base;
}

Isa initial() {
  const char* asked = std::getenv("FIT_ISA");
  if (asked && std::strcmp(asked, "base") == 0) return Isa::base;
  if (available(Isa::avx512) && !(asked && std::strcmp(asked, "avx2") == 0)) return Isa::avx512;
  return available(Isa::avx2) ? Isa::avx2 : Isa::base;
}

}  // namespace

// Set before main; a static object of another file that computes earlier still finds `base`, which always works.
Isa chosen_isa = initial();

Isa isa() { return chosen_isa; }

bool set_isa(Isa i) {
  if (!available(i)) return false;
  chosen_isa = i;
  return true;
}

}  // namespace fit::kernels
