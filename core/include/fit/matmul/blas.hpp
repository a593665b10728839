#pragma once
#include <string>

/// Who computes matrix products here: a report of times should name it (docs/performance.md).
namespace fit {

/// "fit (avx512), OpenBLAS (SkylakeX) for LAPACK": fit's kernels, with the instructions in brackets, compute matrix
/// products. OpenBLAS, which runs as this processor, computes linear algebra (solve, eigh, …).
///
/// "OpenBLAS (Haswell), fit (base) for small products": with FIT_OPENBLAS=use in the environment.
std::string blas();

}  // namespace fit
