#include "matmul/openblas.hpp"

#include <cblas.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "fit/base/error.hpp"

// OpenBLAS exports and declares these; another BLAS may not.
extern "C" void openblas_set_num_threads(int) __attribute__((weak));  // NOLINT(readability-redundant-declaration)
extern "C" char* openblas_get_corename() __attribute__((weak));       // NOLINT(readability-redundant-declaration)

namespace fit::kernels {
namespace {

// Whether the environment variable FIT_OPENBLAS is `what`.
bool wished(const char* what) {
  const char* wish = std::getenv("FIT_OPENBLAS");
  return wish && std::strcmp(wish, what) == 0;
}

void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, const GemmParams<float>& p, const float* a, const float* b,
          float* c) {
  cblas_sgemm(CblasRowMajor, ta, tb, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), p.alpha, a,
              static_cast<int>(p.lda), b, static_cast<int>(p.ldb), p.beta, c, static_cast<int>(p.ldc));
}
void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, const GemmParams<double>& p, const double* a, const double* b,
          double* c) {
  cblas_dgemm(CblasRowMajor, ta, tb, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), p.alpha, a,
              static_cast<int>(p.lda), b, static_cast<int>(p.ldb), p.beta, c, static_cast<int>(p.ldc));
}

}  // namespace

void pin_openblas() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (openblas_set_num_threads && !wished("leave")) openblas_set_num_threads(1);
  });
}

bool openblas_computes() {
  static const bool use = wished("use");
  return use;
}

std::string openblas_core() { return openblas_get_corename ? " (" + std::string(openblas_get_corename()) + ')' : ""; }

template <class T>
void openblas_gemm(const GemmParams<T>& p, const T* a, const T* b, T* c) {
  for (const std::int64_t size : {p.m, p.n, p.k, p.lda, p.ldb, p.ldc})
    if (size > INT_MAX)
      throw Error("[matmul] a size or stride of " + std::to_string(size) + " is more than BLAS can take (" +
                  std::to_string(INT_MAX) + ")");
  pin_openblas();
  call(p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans, p, a, b, c);
}

template void openblas_gemm(const GemmParams<float>&, const float*, const float*, float*);
template void openblas_gemm(const GemmParams<double>&, const double*, const double*, double*);

}  // namespace fit::kernels
