#include "fit/matmul/blas.hpp"

#include "matmul/gemm.hpp"
#include "matmul/openblas.hpp"
#include "support/catch.hpp"
#include "support/variants.hpp"

// Who computes products, in words.
namespace fit::test::blas_test {

TEST_CASE("blas() names who computes a large product, and with which instructions", "[blas]") {
  using kernels::Isa;
  const std::string core = kernels::openblas_core();
  CHECK((core.empty() || (core.substr(0, 2) == " (" && core.back() == ')')));
  each_int8_isa([&] {
    const std::string ours = std::string("fit (") + kernels::isa_name(kernels::isa()) + ')';
    const auto p = kernels::contiguous<double>(256, 256, 256, false, false);
    if (kernels::route(p) == kernels::Route::openblas)
      CHECK(blas() == "OpenBLAS" + core + ", " + ours + " for small products");
    else
      CHECK(blas() == ours + ", OpenBLAS" + core + " for LAPACK");
  });
  CHECK(kernels::isa_name(Isa::avx512_bf16) == std::string("avx512_bf16"));
  CHECK(kernels::isa_name(Isa::base) == std::string("base"));
}

}  // namespace fit::test::blas_test
