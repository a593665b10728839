#pragma once
#include "kernels/isa.hpp"
#include "support/catch.hpp"

namespace fit::test {

/// Calls body() with the kernels of each instruction set that this processor has.
template <class Body>
void on_each_isa(const Body& body) {
  const kernels::Isa before = kernels::isa();
  for (const auto isa : {kernels::Isa::base, kernels::Isa::avx2, kernels::Isa::avx512})
    if (kernels::set_isa(isa)) {
      INFO("instruction set " << static_cast<int>(isa));
      body();
    }
  kernels::set_isa(before);
}

}  // namespace fit::test
