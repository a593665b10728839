#pragma once
#include <cstdint>

#include "fit/parallel.hpp"

// Matrix products. gemm.cpp is the only file that reaches OpenBLAS. Its choices hold for the whole process: OpenBLAS is
// set to one thread a call (products are split here instead), and on AMD processors with AVX-512 that it does not know
// it is switched from its AVX2 kernels to its AVX-512 ones. FIT_OPENBLAS=leave in the environment turns both off.
namespace fit::kernels {

// c [m, n] = alpha op(a) op(b) + beta c, row-major, with row strides lda, ldb, ldc of the matrices as they lie in
// memory: a is [m, k], or [k, m] if transposed; b is [k, n], or [n, k]. beta = 0 does not read c.
template <class T>
struct Product {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  std::int64_t lda, ldb, ldc;
  T alpha = 1, beta = 0;

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// On the calling thread.
template <class T>
void gemm(const Product<T>& p, const T* a, const T* b, T* c);

// Work that is worth a thread of its own.
constexpr double parallel_flops = 4e5;

struct Tiling {
  bool by_rows;
  std::int64_t tile, count;
};
// How a product is cut: along its longer side, into pieces fixed by its shape alone, so that results depend on no
// thread count.
Tiling tiling(std::int64_t m, std::int64_t n, double flops);

// Split over threads. After each piece is computed, and while it is in the cache, done(row, rows, col, cols) is called
// for it.
template <class T, class Done>
void gemm_parallel(const Product<T>& p, const T* a, const T* b, T* c, const Done& done) {
  const Tiling t = tiling(p.m, p.n, p.flops());
  parallel_for(t.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Product<T> part = p;
      const std::int64_t at = i * t.tile, rest = (t.by_rows ? p.m : p.n) - at, size = rest < t.tile ? rest : t.tile;
      (t.by_rows ? part.m : part.n) = size;
      if (t.by_rows) {
        gemm(part, a + at * (p.transpose_a ? 1 : p.lda), b, c + at * p.ldc);
        done(at, size, std::int64_t{0}, p.n);
      } else {
        gemm(part, a, b + at * (p.transpose_b ? p.ldb : 1), c + at);
        done(std::int64_t{0}, p.m, at, size);
      }
    }
  });
}

template <class T>
void gemm_parallel(const Product<T>& p, const T* a, const T* b, T* c) {
  gemm_parallel(p, a, b, c, [](std::int64_t, std::int64_t, std::int64_t, std::int64_t) {});
}

// `count` products of one form; pointers(i, a, b, c) sets where each begins.
template <class T, class Pointers>
void gemm_batched(const Product<T>& p, std::int64_t count, const Pointers& pointers) {
  const auto one = [&](std::int64_t i, bool split) {
    const T* a = nullptr;
    const T* b = nullptr;
    T* c = nullptr;
    pointers(i, a, b, c);
    split ? gemm_parallel(p, a, b, c) : gemm(p, a, b, c);
  };
  // A few large products are split one after the other, many are shared out whole.
  const bool split = count < 8 && p.flops() > 16 * parallel_flops;
  const auto grain = static_cast<std::int64_t>(parallel_flops / (p.flops() + 1)) + 1;
  if (split)
    for (std::int64_t i = 0; i < count; ++i) one(i, true);
  else
    parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) one(i, false);
    });
}

}  // namespace fit::kernels
