#pragma once

// Of equal inline functions and templates the linker keeps any one, for the whole program: one that was compiled for a
// wide instruction set would crash an older processor. So whatever headers share between *.simd.cpp files, which are
// compiled once for each set (see isa.hpp and CMakeLists.txt), and others lies in an inline namespace of the set.
#if !defined(FIT_ISA_NAMESPACE)
#define FIT_ISA_NAMESPACE plain  // in files that are compiled once
#endif

// Loops over registers must be unrolled whole, or their arrays go to memory after every step.
#if defined(__clang__)
#define FIT_UNROLL _Pragma("unroll")
#else
#define FIT_UNROLL _Pragma("GCC unroll 16")
#endif
