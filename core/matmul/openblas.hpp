#pragma once
#include "matmul/gemm_kernels.hpp"

// OpenBLAS, where our own kernels have no vectors wide enough, and to compare.
namespace fit::kernels {

// Whether FIT_OPENBLAS=use in the environment sends all but small products there.
bool openblas_wanted();

// Sets OpenBLAS to one thread a call, for the whole process, unless FIT_OPENBLAS=leave. Does it at the first call
// alone.
void pin_openblas();

// On one thread. Throws Error for a size or stride beyond INT_MAX.
template <class T>
void openblas_gemm(const GemmParams<T>& p, const T* a, const T* b, T* c);

}  // namespace fit::kernels
