#include "kernels/gemm.hpp"

#include <cblas.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "fit/error.hpp"
#include "kernels/scratch.hpp"
#include "kernels/small_product.hpp"

// Debian's shared OpenBLAS exports these; another BLAS may not.
extern "C" {
void openblas_set_num_threads(int) __attribute__((weak));
char* openblas_get_corename(void) __attribute__((weak));
void gotoblas_dynamic_quit(void) __attribute__((weak));
void gotoblas_dynamic_init(void) __attribute__((weak));
}

namespace fit::kernels {
namespace {

// OpenBLAS 0.3.21 takes a processor that it does not know for the oldest of its make: a Zen 5 gets the AVX2 kernels,
// half of its speed. It reads OPENBLAS_CORETYPE when it is initialised, so it is initialised again.
void choose_core() {
#if defined(__x86_64__)
  if (!gotoblas_dynamic_quit || !gotoblas_dynamic_init || !openblas_get_corename || std::getenv("OPENBLAS_CORETYPE"))
    return;
  const char* core = openblas_get_corename();
  if (std::strcmp(core, "Haswell") != 0 && std::strcmp(core, "Zen") != 0) return;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return;
  setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
#endif
}

// Up to this many multiplications our own kernels are ahead: a call of OpenBLAS costs some 200 of their ns.
constexpr std::int64_t small_product_limit = 64 * 64 * 64;

void set_up() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* wish = std::getenv("FIT_OPENBLAS");
    if (wish && std::strcmp(wish, "leave") == 0) return;
    choose_core();
    if (openblas_set_num_threads) openblas_set_num_threads(1);
  });
}

void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, const Product<float>& p, const float* a, const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, ta, tb, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), p.alpha, a,
              static_cast<int>(p.lda), b, static_cast<int>(p.ldb), p.beta, c, static_cast<int>(p.ldc));
}
void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, const Product<double>& p, const double* a, const double* b,
          double* c) {
  cblas_dgemm(CblasRowMajor, ta, tb, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), p.alpha, a,
              static_cast<int>(p.lda), b, static_cast<int>(p.ldb), p.beta, c, static_cast<int>(p.ldc));
}

}  // namespace

template <class T>
void gemm(const Product<T>& p, const T* a, const T* b, T* c) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {  // BLAS wants leading dimensions of at least 1
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) c[i * p.ldc + j] = p.beta == 0 ? T(0) : p.beta * c[i * p.ldc + j];
    return;
  }
  if (few_rows(p)) return FIT_KERNELS(small_product_table, T).dots(p, a, b, c);
  if (p.m * p.n * p.k <= small_product_limit) {
    const Scratch<T> scratch(scratch_of(p));
    return FIT_KERNELS(small_product_table, T).run(p, a, b, c, scratch.get());
  }
  for (const std::int64_t size : {p.m, p.n, p.k, p.lda, p.ldb, p.ldc})
    if (size > INT_MAX)
      throw Error("[matmul] a size or stride of " + std::to_string(size) + " is more than BLAS can take (" +
                  std::to_string(INT_MAX) + ")");
  set_up();
  call(p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans, p, a, b, c);
}

template void gemm(const Product<float>&, const float*, const float*, float*);
template void gemm(const Product<double>&, const double*, const double*, double*);

Tiling tiling(std::int64_t m, std::int64_t n, double flops) {
  const bool by_rows = m >= n;
  const std::int64_t longer = by_rows ? m : n;
  // Pieces of at least 64 keep OpenBLAS's rate; eight of them are enough to share out evenly.
  const std::int64_t pieces = flops < 2 * parallel_flops ? 1
                              : longer >= 768            ? 8
                              : longer >= 256            ? 4
                              : longer >= 64             ? 2
                                                         : 1;
  const std::int64_t tile = ((longer + pieces - 1) / pieces + 15) / 16 * 16;
  return {by_rows, tile, longer == 0 ? 0 : (longer + tile - 1) / tile};
}

}  // namespace fit::kernels
