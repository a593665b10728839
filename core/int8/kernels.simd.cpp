#include "int8/kernels.hpp"

#include "int8/bytes.hpp"
#include "int8/in_order.hpp"
#include "kernels/simd/pack.hpp"
#include "matmul/gemv.hpp"
#if defined(__AVX512F__)
#include "int8/bytes_amx.hpp"
#include "int8/digits.hpp"
#endif

namespace fit::kernels {
namespace {

using V = Vec<float>;

V load_int8(const Full&, const std::int8_t* p) {
#if defined(__AVX512F__)
  __m128i bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return V(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
#elif defined(__AVX2__)
  std::int64_t bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return V(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(bytes))));
#else
  alignas(64) float wide[V::size];
  for (std::size_t i = 0; i < V::size; ++i) wide[i] = p[i];
  return V::load_aligned(wide);
#endif
}
// The absent lanes are 0.
V load_int8(const Tail& tail, const std::int8_t* p) {
  std::int8_t part[V::size] = {};
  for (std::int64_t i = 0; i < tail.n; ++i) part[i] = p[i];
  return load_int8(Full(), part);
}
// 4 bits, from l on, a multiple of the vector's size.
V load_int4(const std::int8_t* row, std::int64_t l) {
#if defined(__AVX512F__)  // permutexvar_ps reads 4 bits of a lane
  std::int64_t bytes;
  __builtin_memcpy(&bytes, row + l / 2, sizeof bytes);
  const __m512i words = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
                                                 _mm512_castsi128_si512(_mm_cvtsi64_si128(bytes)));
  const __m512i shifts = _mm512_setr_epi32(0, 8, 16, 24, 4, 12, 20, 28, 0, 8, 16, 24, 4, 12, 20, 28);
  return V(_mm512_permutexvar_ps(_mm512_srlv_epi32(words, shifts),
                                 _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7)));
#elif defined(__AVX2__)
  std::int32_t bytes;
  __builtin_memcpy(&bytes, row + l / 2, sizeof bytes);
  const __m256i numbers = _mm256_srlv_epi32(_mm256_set1_epi32(bytes), _mm256_setr_epi32(0, 8, 16, 24, 4, 12, 20, 28));
  return V(
      _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_and_si256(numbers, _mm256_set1_epi32(15)), _mm256_set1_epi32(8))));
#else
  alignas(64) float wide[V::size];
  for (std::size_t i = 0; i < V::size; ++i)
    wide[i] = static_cast<float>(int4_at(row, l + static_cast<std::int64_t>(i)));
  return V::load_aligned(wide);
#endif
}
template <int bits, class Access>
V load_numbers(const Access& access, const std::int8_t* row, std::int64_t l) {
  if constexpr (bits == 8) return load_int8(access, row + l);
  return load_int4(row, l);
}

// Computes M rows of c and R columns: rows of w from `row` on, `step` apart. The kernel prefetches each line of the
// cache: each byte needs so much work that the processor itself does not prefetch far enough.
constexpr std::int64_t line = 64;  // bytes
template <int bits, int M, int R>
void dots(const float* x, std::int64_t ldx, const Int8Task& task, std::int64_t row, std::int64_t step) {
  const std::int64_t k = task.k;
  const Int8Weights& w = task.w;
  const std::int8_t* const from = w.data + row * w.ld;
  const std::int64_t groups = w.groups(k);
  Accumulators<float, 1> total[R][M];
  for (std::int64_t g = 0; g < groups; ++g) {
    Accumulators<float, 1> sum[R][M];
    std::int64_t l = g * w.group;
    const std::int64_t end = l + w.group < k ? l + w.group : k;
    const auto add = [&](std::int64_t i, auto access, int j) {
      V a[M];
      FIT_UNROLL for (int m = 0; m < M; ++m) a[m] = access.template load<V>(x + m * ldx + l + i, 0.0F);
      FIT_UNROLL for (int r = 0; r < R; ++r) {
        const V b = load_numbers<bits>(access, from + r * step * w.ld, l + i);
        FIT_UNROLL for (int m = 0; m < M; ++m) sum[r][m][j] = fma(a[m], b, sum[r][m][j]);
      }
    };
    const auto prefetch = [&] {
      FIT_UNROLL for (int r = 0; r < R; ++r) __builtin_prefetch(from + r * step * w.ld + l * bits / 8 + prefetch_bytes);
    };
    for (; l + line <= end; l += line) {
      prefetch();
      accumulate<float, 1>(line, add);
    }
    if (l < end) {
      prefetch();
      accumulate<float, 1>(end - l, add);
    }
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      const V scale(w.scales[(row + r * step) * groups + g]);
      FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int j = 0; j < pack_registers; ++j) total[r][i][j] =
          fma(scale, sum[r][i][j], total[r][i][j]);
    }
  }
  store_dots<M, R, float>(total, [&](int i, int r, float dot) {
    const std::int64_t j = row + r * step;
    task.c[i * task.ldc + j] = task.bias ? dot + task.bias[j] : dot;
  });
}

template <int bits>
void gemv_of(std::int64_t m, const float* x, std::int64_t ldx, const Int8Task& task, Part part, ColumnsDone done) {
  with_rows<gemv_max_m>(m, [&](auto rows) {
    each_columns<rows>(
        task.n, part,
        [&](auto columns, std::int64_t j, std::int64_t step) { dots<bits, rows, columns>(x, ldx, task, j, step); },
        done);
  });
}

void gemv(std::int64_t m, const float* x, std::int64_t ldx, const Int8Task& task, Part part, ColumnsDone done) {
  (task.w.bits == 4 ? gemv_of<4> : gemv_of<8>)(m, x, ldx, task, part, done);
}

template <int bits, class To>
void unpack_of(std::int64_t rows, std::int64_t k, const Int8Weights& w, To* out) {
  const std::int64_t groups = w.groups(k);
  for (std::int64_t j = 0; j < rows; ++j)
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t first = g * w.group, count = k - first < w.group ? k - first : w.group;
      const std::int8_t* const from = w.data + j * w.ld + first * bits / 8;
      To* const to = out + j * k + first;
      const V scale(w.scales[j * groups + g]);
      for_each_vector<V>(count, [&](std::int64_t l, auto access) {
        access.store(V(scale * load_numbers<bits>(access, from, l)), to + l);
      });
    }
}

template <class To>
void unpack(std::int64_t rows, std::int64_t k, const Int8Weights& w, To* out) {
  (w.bits == 4 ? unpack_of<4, To> : unpack_of<8, To>)(rows, k, w, out);
}

}  // namespace

template <class IsaTag, class T>
const Int8Kernels& int8_table() {
  constexpr auto table = [](const ByteKernels& bytes, auto digits_of, auto gemv_digits) {
    return Int8Kernels{gemv,
                       gemv_int8_in_order<float>,
                       gemv_int8_in_order<BFloat16>,
                       digits_of,
                       gemv_digits,
                       unpack<float>,
                       unpack<BFloat16>,
                       bytes};
  };
#if defined(__AVX512F__)
  static constexpr Int8Kernels amx = table(byte_kernels_amx, digits_of, gemv_digits),
                               vnni = table(byte_kernels<BytesByVnni>, digits_of, gemv_digits);
  if (narrow_isa() == Isa::amx) return amx;
  if (narrow_isa() >= Isa::avx512_vnni) return vnni;
#elif defined(__AVX2__)
  static constexpr Int8Kernels vnni = table(byte_kernels<BytesByVnni>, nullptr, nullptr);
  if (narrow_isa() == Isa::avx2_vnni) return vnni;
#endif
  static constexpr Int8Kernels others = table(byte_kernels<Bytes>, nullptr, nullptr);
  return others;
}

template const Int8Kernels& int8_table<FIT_ISA, std::int8_t>();

}  // namespace fit::kernels
