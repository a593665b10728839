#pragma once

// The linker keeps only one of several equal inline functions and templates. A version for a wide instruction set would
// crash an older processor. *.simd.cpp files are compiled once for each set (see isa.hpp and CMakeLists.txt). So the
// headers that they share use an inline namespace named after the set.
#if !defined(FIT_ISA_NAMESPACE)
#define FIT_ISA_NAMESPACE plain  // in files that are compiled once
#endif

// Loops over registers must be fully unrolled; otherwise their arrays are stored to memory after every step.
#if defined(__clang__)
#define FIT_UNROLL _Pragma("unroll")
#else
#define FIT_UNROLL _Pragma("GCC unroll 16")
#endif

// For a function of a row or a matrix, where a call costs little. Copies of the function for each caller or each
// constant argument would make programs larger.
#if defined(__clang__)
#define FIT_ONE_COPY [[gnu::noinline]]
#else
#define FIT_ONE_COPY [[gnu::noinline, gnu::noclone]]
#endif
