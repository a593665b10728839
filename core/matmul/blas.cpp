#include "fit/matmul/blas.hpp"

#include "kernels/simd/isa.hpp"
#include "matmul/openblas.hpp"

namespace fit {

std::string blas() {
  const std::string ours = std::string("fit (") + kernels::isa_name(kernels::isa()) + ')';
  const std::string theirs = "OpenBLAS" + kernels::openblas_core();
  return kernels::openblas_computes() ? theirs + ", " + ours + " for small products"
                                      : ours + ", " + theirs + " for LAPACK";
}

}  // namespace fit
