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
Narrow<T, bytes> operator+(const Narrow<T, bytes>& a, const Narrow<T, bytes>& b) {
  Narrow<T, bytes> y;
  y.lanes = a.lanes + b.lanes;
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

// What the rows of a slice of c have in common, as in multiply_slices().
template <class T>
struct Slice {
  std::int64_t k, row, col, ldb, ldc;
  T alpha;
  bool accumulate;
  const T *b, *bias;
  const std::int64_t* rows;  // where the rows of b begin, if they are listed instead of ldb apart
  std::int64_t tail;         // of the last vector, as many numbers as there are columns
  std::int64_t distance;     // of the slice that is fetched meanwhile, from b on
};

// Vector j of NV, the last of which has `tail` numbers unless Full.
template <class V, int NV, bool Full, class T = typename V::value_type>
inline V load_vector(const T* row, int j, std::int64_t tail) {
  if constexpr (Full)
    return load<V>(row + j * V::size);
  else
    return j + 1 < NV ? load<V>(row + j * V::size) : load_part<V>(row + j * V::size, tail);
}
template <class V, int NV, bool Full, class T = typename V::value_type>
inline void store_vector(const V& v, T* row, int j, std::int64_t tail) {
  if constexpr (Full)
    v.store_unaligned(row + j * V::size);
  else
    j + 1 < NV ? v.store_unaligned(row + j * V::size) : store_part(v, row + j * V::size, tail);
}

// c [MR, NV vectors]
template <bool Fetches, class V, int MR, int NV, bool Full, bool Listed, class T = typename V::value_type>
inline void micro_kernel(const Slice<T>& s, const T* a, T* c, const Ahead& ahead) {
  const std::int64_t k = s.k, row = s.row, col = s.col, ldb = s.ldb, ldc = s.ldc, tail = s.tail;
  const T* const b = s.b;
  const auto get = [=](const T* at, int j) { return load_vector<V, NV, Full>(at, j, tail); };
  V sum[MR][NV];
  FIT_UNROLL for (int i = 0; i < MR; ++i) FIT_UNROLL for (int j = 0; j < NV; ++j) sum[i][j] = V(T(0));
  // A pointer for four rows each: offsets of 16 rows do not fit the registers.
  constexpr int groups = (MR + 3) / 4;
  const T* four[groups];
  FIT_UNROLL for (int g = 0; g < groups; ++g) four[g] = a + 4 * g * row;
  const bool longer = col == 1 && row > k;
  for (std::int64_t p = 0; p < k; ++p) {
    // Prefetches the next rows of a, a line of each at a time: the processor itself starts too late where a is a part
    // of longer rows, and many lines at once delay the loads of b. Prefetching past the last row is harmless.
    if (NV == nr_vectors && longer && p % line<T> == 0)
      FIT_UNROLL for (int i = 0; i < MR; ++i) __builtin_prefetch(four[i / 4] + (i % 4 + MR) * row, 0, 2);
    V y[NV];
    const T* const b_row = b + (Listed ? s.rows[p] : p * ldb);
    FIT_UNROLL for (int j = 0; j < NV; ++j) y[j] = get(b_row, j);
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
  const V factor(s.alpha);
  FIT_UNROLL for (int i = 0; i < MR; ++i) FIT_UNROLL for (int j = 0; j < NV; ++j) {
    T* const at = c + i * ldc;
    const V value = s.accumulate ? multiply_add(factor, sum[i][j], get(at, j)) : factor * sum[i][j];
    store_vector<V, NV, Full>(value, at, j, tail);
  }
}

// Adds the bias to rows of c.
template <class V, int NV, bool Full, class T = typename V::value_type>
FIT_ONE_COPY void add_bias(const Slice<T>& s, std::int64_t rows, T* c) {
  for (; rows > 0; --rows, c += s.ldc) {
    FIT_UNROLL for (int j = 0; j < NV; ++j) {
      const V value = load_vector<V, NV, Full>(c, j, s.tail) + load_vector<V, NV, Full>(s.bias, j, s.tail);
      store_vector<V, NV, Full>(value, c, j, s.tail);
    }
  }
}

// Computes m rows of c by micro-kernels of MR rows, and the rest by smaller ones. Fetches: each fetches its share of
// the slice at the distance. `done` rows were computed before.
template <bool Fetches, class V, int MR, int NV, bool Full, bool Listed = false, class T = typename V::value_type>
void micro_kernels(const Slice<T>& s, std::int64_t m, const T* a, T* c, std::int64_t done = 0) {
  const std::int64_t all = done + m;
  for (; m >= MR; m -= MR, done += MR, a += MR * s.row, c += MR * s.ldc) {
    Ahead ahead;
    if (Fetches) ahead = {s.distance, NV * done / all, NV * (done + MR) / all};
    micro_kernel<Fetches, V, MR, NV, Full, Listed>(s, a, c, ahead);
    if (s.bias) add_bias<V, NV, Full>(s, MR, c);  // while they are in the L1 cache
  }
  constexpr int fewer = MR == 6 ? 4 : MR / 2;
  if constexpr (fewer > 0)
    if (m > 0) micro_kernels<Fetches, V, fewer, NV, Full, Listed>(s, m, a, c, done);
}

template <bool Full, class T>
void micro_kernels_of(std::int64_t vectors, const Slice<T>& s, std::int64_t m, const T* a, T* c) {
  switch (vectors) {
    case 1:
      return micro_kernels<false, Vec<T>, mr(1), 1, Full>(s, m, a, c);
    case 2:
      return micro_kernels<false, Vec<T>, mr(2), 2, Full>(s, m, a, c);
#if defined(__AVX512F__)
    case 3:
      return micro_kernels<false, Vec<T>, mr(3), 3, Full>(s, m, a, c);
    case 4:
      return micro_kernels<false, Vec<T>, mr(4), 4, Full>(s, m, a, c);
#endif
    default:
      return;
  }
}

}  // namespace

template <class T>
void multiply_slices(bool transpose_a, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a,
                     std::int64_t lda, const T* b, std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate,
                     std::int64_t slice_step, const T* next, const T* bias) {
  constexpr std::int64_t W = Vec<T>::size;
  Slice<T> s{k, lda, 1, ldb, ldc, alpha, accumulate, b, bias, nullptr, W, next ? next - b : 0};
  if (transpose_a) s.row = 1, s.col = lda;
  for (std::int64_t j = 0; j < n; j += slice_width<T>(), s.b += slice_step, c += slice_width<T>()) {
    const std::int64_t left = n - j, all = (left + W - 1) / W, vectors = all < nr_vectors ? all : nr_vectors;
    if (left < slice_width<T>()) s.tail = left - (vectors - 1) * W;
    if (bias) s.bias = bias + j;
    if (sizeof(Vec<T>) == 64 && next && left >= slice_width<T>())  // with shorter vectors, fetching gains nothing
      micro_kernels<sizeof(Vec<T>) == 64, Vec<T>, mr(nr_vectors), nr_vectors, true>(s, m, a, c);
#if defined(__AVX2__)
    else if (left == Narrow<T, 16>::size)
      micro_kernels<false, Narrow<T, 16>, mr(1), 1, true>(s, m, a, c);
#endif
#if defined(__AVX512F__)
    else if (left == Narrow<T, 32>::size)
      micro_kernels<false, Narrow<T, 32>, mr(1), 1, true>(s, m, a, c);
#endif
    // Parts of vectors take longer to read: with AVX-512, a mask occupies a port that the sums need.
    else if (s.tail == W)
      micro_kernels_of<true>(vectors, s, m, a, c);
    else
      micro_kernels_of<false>(vectors, s, m, a, c);
  }
}

template <class T>
void multiply_rows(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, std::int64_t lda, const T* b,
                   const std::int64_t* rows, T* c, std::int64_t ldc) {
  Slice<T> s{k, lda, 1, 0, ldc, T(1), true, b, nullptr, rows, Vec<T>::size, 0};
  for (std::int64_t j = 0; j < n; j += slice_width<T>(), s.b += slice_width<T>(), c += slice_width<T>())
    micro_kernels<false, Vec<T>, mr(nr_vectors), nr_vectors, true, true>(s, m, a, c);
}

#define FIT_MACRO_KERNEL(T)                                                                                          \
  template void multiply_slices(bool, std::int64_t, std::int64_t, std::int64_t, T, const T*, std::int64_t, const T*, \
                                std::int64_t, T*, std::int64_t, bool, std::int64_t, const T*, const T*);             \
  template void multiply_rows(std::int64_t, std::int64_t, std::int64_t, const T*, std::int64_t, const T*,            \
                              const std::int64_t*, T*, std::int64_t);
FIT_MACRO_KERNEL(float)
FIT_MACRO_KERNEL(double)
#undef FIT_MACRO_KERNEL

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
