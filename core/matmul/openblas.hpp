#pragma once
#include "matmul/gemm_kernels.hpp"

// OpenBLAS, for comparisons.
namespace fit::kernels {

// Whether OpenBLAS computes all but small products: by the environment variable FIT_OPENBLAS=use.
bool openblas_computes();

// The processor for which OpenBLAS runs, " (SkylakeX)"; "" if the library does not say.
std::string openblas_core();

// Sets OpenBLAS to one thread for the process, unless FIT_OPENBLAS=leave. Only the first call has an effect.
void pin_openblas();

// Runs on one thread. Throws Error for a size or stride above INT_MAX.
template <class T>
void openblas_gemm(const GemmParams<T>& p, const T* a, const T* b, T* c);

}  // namespace fit::kernels
