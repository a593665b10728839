#include "matmul/macro_kernel.hpp"

// The micro-kernel, and the macro-kernel that calls it. The elements of a are broadcast one at a time, so both layouts
// have the same speed and the same code: op(a)[i, p] is a[i row + p col]. The micro-kernel keeps MR rows by NV vectors
// of c in registers.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {
namespace {

// The number of rows for rows of `vectors`. The block of c, a row of b and one element of a must fit the registers.
// Enough independent sums hide the latency.
#if defined(__AVX512F__)
constexpr int mr(int vectors) { return vectors == 1 ? 16 : vectors <= 3 ? 8 : 6; }
#else
constexpr int mr(int vectors) { return vectors == 1 ? 8 : 6; }
#endif

template <class T>
constexpr std::int64_t line = 64 / sizeof(T);  // elements of a cache line

template <class V>
V multiply_add(const V& a, const V& b, const V& c) {
  return xsimd::fma(a, b, c);
}

#if defined(__AVX2__)
// A vector of half or a quarter of the size, for c of as many columns: a part of a whole one takes twice as long.
template <class T, int bytes>
struct Narrow {
  using value_type = T;
  typedef T Register __attribute__((vector_size(bytes)));  // g++ ignores the size in a `using`
  static constexpr std::int64_t size = bytes / sizeof(T);

  Narrow() = default;
  explicit Narrow(T x) : lanes(x - Register{}) {}
  static Narrow load_unaligned(const T* p) {
    Narrow v;
    __builtin_memcpy(&v.lanes, p, bytes);
    return v;
  }
  void store_unaligned(T* p) const { __builtin_memcpy(p, &lanes, bytes); }

  Register lanes;
};
template <class T, int bytes>
Narrow<T, bytes> operator*(const Narrow<T, bytes>& a, const Narrow<T, bytes>& b) {
  Narrow<T, bytes> y;
  y.lanes = a.lanes * b.lanes;
  return y;
}
template <class T, int bytes>
Narrow<T, bytes> multiply_add(const Narrow<T, bytes>& a, const Narrow<T, bytes>& b, const Narrow<T, bytes>& c) {
  Narrow<T, bytes> y;
  if constexpr (bytes == 32 && sizeof(T) == 4)
    y.lanes = _mm256_fmadd_ps(a.lanes, b.lanes, c.lanes);
  else if constexpr (bytes == 32)
    y.lanes = _mm256_fmadd_pd(a.lanes, b.lanes, c.lanes);
  else if constexpr (sizeof(T) == 4)
    y.lanes = _mm_fmadd_ps(a.lanes, b.lanes, c.lanes);
  else
    y.lanes = _mm_fmadd_pd(a.lanes, b.lanes, c.lanes);
  return y;
}
#endif

template <bool Fetches, class V, int MR, int NV, bool Full, class T = typename V::value_type>
inline void micro_kernel(std::int64_t k, T alpha, const T* a, std::int64_t row, std::int64_t col, const T* b,
                         std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate, std::int64_t tail,
                         const Ahead& ahead) {
  constexpr std::int64_t W = V::size;
  const auto get = [=](const T* at, int j) {
    if constexpr (Full)
      return load<V>(at + j * W);
    else
      return j + 1 < NV ? load<V>(at + j * W) : load_part<V>(at + j * W, tail);
  };
  V sum[MR][NV];
  FIT_UNROLL for (int i = 0; i < MR; ++i) FIT_UNROLL for (int j = 0; j < NV; ++j) sum[i][j] = V(T(0));
  // A pointer for four rows each: offsets of 16 rows do not fit the registers.
  constexpr int groups = (MR + 3) / 4;
  const T* four[groups];
  FIT_UNROLL for (int g = 0; g < groups; ++g) four[g] = a + 4 * g * row;
  const bool longer = col == 1 && row > k;
  for (std::int64_t p = 0; p < k; ++p) {
    // Prefetches the next rows of a, a line of each at a time: the processor itself starts too late where a is a part of
    // longer rows, and many lines at once delay the loads of b. Prefetching past the last row is harmless.
    if (NV == nr_vectors && longer && p % line<T> == 0)
      FIT_UNROLL for (int i = 0; i < MR; ++i) __builtin_prefetch(four[i / 4] + (i % 4 + MR) * row, 0, 2);
    V y[NV];
    FIT_UNROLL for (int j = 0; j < NV; ++j) y[j] = get(b + p * ldb, j);
    for (std::int64_t l = ahead.first; Fetches && l < ahead.last; ++l)
      __builtin_prefetch(b + p * ldb + ahead.distance + l * line<T>, 0, 2);
    FIT_UNROLL for (int i = 0; i < MR; ++i) {
      const V x(four[i / 4][i % 4 * row]);
      FIT_UNROLL for (int j = 0; j < NV; ++j) sum[i][j] = multiply_add(x, y[j], sum[i][j]);
    }
    FIT_UNROLL for (int g = 0; g < groups; ++g) {
      four[g] += col;
#if defined(__GNUC__)
      __asm__("" : "+r"(four[g]));  // without it, g++ computes offsets from one pointer again
#endif
    }
  }
  const V factor(alpha);
  FIT_UNROLL for (int i = 0; i < MR; ++i) FIT_UNROLL for (int j = 0; j < NV; ++j) {
    const V value = accumulate ? multiply_add(factor, sum[i][j], get(c + i * ldc, j)) : factor * sum[i][j];
    if constexpr (Full)
      value.store_unaligned(c + i * ldc + j * W);
    else if (j + 1 < NV)
      value.store_unaligned(c + i * ldc + j * W);
    else
      store_part(value, c + i * ldc + j * W, tail);
  }
}

// Computes all rows of c by micro-kernels of MR rows, and the rest by smaller ones. Fetches: each fetches its share of
// the rows of b that are `distance` elements further on. `done` rows were computed before.
template <bool Fetches, class V, int MR, int NV, bool Full, class T = typename V::value_type>
void micro_kernels(std::int64_t m, std::int64_t k, T alpha, const T* a, std::int64_t row, std::int64_t col, const T* b,
                   std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate, std::int64_t tail,
                   std::int64_t distance = 0, std::int64_t done = 0) {
  const std::int64_t all = done + m;
  for (; m >= MR; m -= MR, done += MR, a += MR * row, c += MR * ldc) {
    Ahead ahead;
    if (Fetches) ahead = {distance, NV * done / all, NV * (done + MR) / all};
    micro_kernel<Fetches, V, MR, NV, Full>(k, alpha, a, row, col, b, ldb, c, ldc, accumulate, tail, ahead);
  }
  constexpr int fewer = MR == 6 ? 4 : MR / 2;
  if constexpr (fewer > 0)
    if (m > 0)
      micro_kernels<Fetches, V, fewer, NV, Full>(m, k, alpha, a, row, col, b, ldb, c, ldc, accumulate, tail, distance,
                                                 done);
}

template <bool Full, class T>
void micro_kernels_of(std::int64_t vectors, std::int64_t m, std::int64_t k, T alpha, const T* a, std::int64_t row,
                      std::int64_t col, const T* b, std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate,
                      std::int64_t tail) {
  switch (vectors) {
    case 1:
      return micro_kernels<false, Vec<T>, mr(1), 1, Full>(m, k, alpha, a, row, col, b, ldb, c, ldc, accumulate, tail);
    case 2:
      return micro_kernels<false, Vec<T>, mr(2), 2, Full>(m, k, alpha, a, row, col, b, ldb, c, ldc, accumulate, tail);
#if defined(__AVX512F__)
    case 3:
      return micro_kernels<false, Vec<T>, mr(3), 3, Full>(m, k, alpha, a, row, col, b, ldb, c, ldc, accumulate, tail);
    case 4:
      return micro_kernels<false, Vec<T>, mr(4), 4, Full>(m, k, alpha, a, row, col, b, ldb, c, ldc, accumulate, tail);
#endif
    default:
      return;
  }
}

}  // namespace

template <class T>
void macro_kernel(bool transpose_a, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a,
                  std::int64_t lda, const T* b, std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate,
                  std::int64_t slice_step, const T* next) {
  constexpr std::int64_t W = Vec<T>::size;
  const std::int64_t distance = next ? next - b : 0;
  const std::int64_t row = transpose_a ? 1 : lda, col = transpose_a ? lda : 1;
  for (std::int64_t j = 0; j < n; j += slice_width<T>(), b += slice_step) {
    const std::int64_t left = n - j, all = (left + W - 1) / W, vectors = all < nr_vectors ? all : nr_vectors;
    const std::int64_t tail = left - (vectors - 1) * W;
    if constexpr (sizeof(Vec<T>) == 64)  // with shorter vectors, fetching gains nothing
      if (next && left >= slice_width<T>()) {
        micro_kernels<true, Vec<T>, mr(nr_vectors), nr_vectors, true>(m, k, alpha, a, row, col, b, ldb, c + j, ldc,
                                                                      accumulate, W, distance);
        continue;
      }
#if defined(__AVX2__)
    if (left == Narrow<T, 16>::size) {
      micro_kernels<false, Narrow<T, 16>, mr(1), 1, true>(m, k, alpha, a, row, col, b, ldb, c + j, ldc, accumulate,
                                                          left);
      continue;
    }
#endif
#if defined(__AVX512F__)
    if (left == Narrow<T, 32>::size) {
      micro_kernels<false, Narrow<T, 32>, mr(1), 1, true>(m, k, alpha, a, row, col, b, ldb, c + j, ldc, accumulate,
                                                          left);
      continue;
    }
#endif
    // Parts of vectors take longer to read: with AVX-512, a mask occupies a port that the sums need.
    if (tail >= W)
      micro_kernels_of<true>(vectors, m, k, alpha, a, row, col, b, ldb, c + j, ldc, accumulate, W);
    else
      micro_kernels_of<false>(vectors, m, k, alpha, a, row, col, b, ldb, c + j, ldc, accumulate, tail);
  }
}

#define FIT_MACRO_KERNEL(T)                                                                                       \
  template void macro_kernel(bool, std::int64_t, std::int64_t, std::int64_t, T, const T*, std::int64_t, const T*, \
                             std::int64_t, T*, std::int64_t, bool, std::int64_t, const T*);
FIT_MACRO_KERNEL(float)
FIT_MACRO_KERNEL(double)
#undef FIT_MACRO_KERNEL

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
