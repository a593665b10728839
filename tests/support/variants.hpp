#pragma once
#include <initializer_list>

#include "fit/threads/parallel.hpp"
#include "kernels/simd/isa.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Runs a computation on every instruction set, and with several numbers of threads.
namespace fit::test {

/// Calls body() for each of these instruction sets that the machine supports. Restores the previous set.
template <class Body>
void each_of(std::initializer_list<kernels::Isa> sets, const Body& body) {
  struct Restore {
    kernels::Isa before = kernels::isa();
    ~Restore() { kernels::set_isa(before); }
  } restore;
  for (const kernels::Isa i : sets)
    if (kernels::set_isa(i)) {
      INFO("instruction set " << static_cast<int>(i));
      body();
    }
}

/// Calls body() for all instruction sets of ordinary kernels, or of those of int8, or of bfloat16.
template <class Body>
void each_isa(const Body& body) {
  each_of({kernels::Isa::base, kernels::Isa::neon, kernels::Isa::avx2, kernels::Isa::avx512}, body);
}
template <class Body>
void each_int8_isa(const Body& body) {
  using kernels::Isa;
  each_of({Isa::base, Isa::neon, Isa::avx2, Isa::avx2_vnni, Isa::avx512, Isa::avx512_vnni, Isa::avx512_bf16, Isa::amx},
          body);
}
template <class Body>
void each_bfloat16_isa(const Body& body) {
  using kernels::Isa;
  each_of({Isa::base, Isa::neon, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}, body);
}

/// Checks that the tensor f() has the same bits with 1, 2 and 3 threads.
template <class F>
void check_threads(const F& f) {
  struct Restore {
    int before = num_threads();
    ~Restore() { set_num_threads(before); }
  } restore;
  set_num_threads(1);
  const Tensor one = f();
  for (const int n : {2, 3}) {
    INFO(n << " threads");
    set_num_threads(n);
    CHECK(same_bits(f(), one));
  }
}

}  // namespace fit::test
