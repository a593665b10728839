#include "int8/kernels.hpp"

#include "kernels/simd/for_each_vector.hpp"
#include "matmul/gemv.hpp"
#if defined(__AVX512F__)
#include "int8/digits.hpp"
#endif

namespace fit::kernels {
namespace {

using V = Pack<float>;
constexpr std::int64_t W = V::size;

Vec<float> load_register(const std::int8_t* p) {
#if defined(__AVX512F__)
  __m128i bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return Vec<float>(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
#elif defined(__AVX2__)
  std::int64_t bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return Vec<float>(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(bytes))));
#else
  alignas(64) float wide[Vec<float>::size];
  for (std::size_t i = 0; i < Vec<float>::size; ++i) wide[i] = p[i];
  return Vec<float>::load_aligned(wide);
#endif
}
V load_int8(const std::int8_t* p) {
  return from_registers<V>([p](std::int64_t i) { return load_register(p + i); });
}

// Loads the first n lanes; the others are 0.
V load_int8(const std::int8_t* p, std::int64_t n) {
  std::int8_t part[V::size] = {};
  for (std::int64_t i = 0; i < n; ++i) part[i] = p[i];
  return load_int8(part);
}

// Computes M rows of c and R columns: rows of w from `row` on, `step` apart. Neighbouring vectors have separate sums,
// so that the additions are independent. The kernel prefetches each line of the cache: each byte needs so much work
// that the processor itself does not prefetch far enough.
constexpr int chains = 2;
constexpr std::int64_t line = 64;  // bytes
template <int M, int R>
void dots(const float* x, std::int64_t ldx, const Int8Task& task, std::int64_t row, std::int64_t step) {
  const std::int64_t k = task.k;
  const Int8Weights& w = task.w;
  const std::int8_t* const from = w.data + row * w.ld;
  const std::int64_t groups = w.groups(k);
  V total[R][M];
  FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) total[r][i] = V(0.0F);
  for (std::int64_t g = 0; g < groups; ++g) {
    V sum[chains][R][M];
    FIT_UNROLL for (int j = 0; j < chains; ++j) FIT_UNROLL for (int r = 0; r < R; ++r)
        FIT_UNROLL for (int i = 0; i < M; ++i) sum[j][r][i] = V(0.0F);
    const auto add = [&](int chain, const auto& get_x, const auto& get_w) {
      V a[M];
      FIT_UNROLL for (int i = 0; i < M; ++i) a[i] = get_x(x + i * ldx);
      FIT_UNROLL for (int r = 0; r < R; ++r) {
        const V b = get_w(from + r * step * w.ld);
        FIT_UNROLL for (int i = 0; i < M; ++i) sum[chain][r][i] = fma(a[i], b, sum[chain][r][i]);
      }
    };
    const auto add_whole = [&](int chain, std::int64_t at) {
      add(
          chain, [at](const float* p) { return load<V>(p + at); },
          [at](const std::int8_t* p) { return load_int8(p + at); });
    };
    std::int64_t l = g * w.group;
    const std::int64_t end = l + w.group < k ? l + w.group : k;
    const auto prefetch = [&] {
      FIT_UNROLL for (int r = 0; r < R; ++r) __builtin_prefetch(from + r * step * w.ld + l + prefetch_bytes);
    };
    for (; l + line <= end; l += line) {
      prefetch();
      FIT_UNROLL for (int v = 0; v < line / W; ++v) add_whole(v % chains, l + v * W);
    }
    if (l < end) prefetch();
    for (; l + chains * W <= end; l += chains * W) FIT_UNROLL for (int j = 0; j < chains; ++j) add_whole(j, l + j * W);
    for (; l + W <= end; l += W) add_whole(0, l);
    if (l < end)
      add(
          0, [&](const float* p) { return load_part<V>(p + l, end - l); },
          [&](const std::int8_t* p) { return load_int8(p + l, end - l); });
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      const V scale(w.scales[(row + r * step) * groups + g]);
      FIT_UNROLL for (int i = 0; i < M; ++i) total[r][i] = fma(scale, sum[0][r][i] + sum[1][r][i], total[r][i]);
    }
  }
  store_dots<M, R, float>(total, [&](int i, int r, float dot) {
    const std::int64_t j = row + r * step;
    task.c[i * task.ldc + j] = task.bias ? dot + task.bias[j] : dot;
  });
}

void gemv(std::int64_t m, const float* x, std::int64_t ldx, const Int8Task& task, Part part, ColumnsDone done) {
  with_rows<gemv_max_m>(m, [&](auto rows) {
    each_columns<rows, chains + 1>(
        task.n, part,
        [&](auto columns, std::int64_t j, std::int64_t step) { dots<rows, columns>(x, ldx, task, j, step); }, done);
  });
}

template <class To>
void unpack(std::int64_t rows, std::int64_t k, const Int8Weights& w, To* out) {
  const std::int64_t groups = w.groups(k);
  for (std::int64_t j = 0; j < rows; ++j)
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t first = g * w.group, count = k - first < w.group ? k - first : w.group;
      const std::int8_t* const from = w.data + j * w.ld + first;
      To* const to = out + j * k + first;
      const V scale(w.scales[j * groups + g]);
      std::int64_t l = 0;
      for (; l + W <= count; l += W) store(scale * load_int8(from + l), to + l);
      if (l < count) store_part(scale * load_int8(from + l, count - l), to + l, count - l);
    }
}

}  // namespace

template <class IsaTag, class T>
const Int8Kernels& int8_table() {
#if defined(__AVX512F__)
  static constexpr Int8Kernels by_digits{gemv, digits_of, gemv_digits, unpack<float>, unpack<BFloat16>};
  if (chosen_isa >= Isa::avx512_bf16) return by_digits;
#endif
  static constexpr Int8Kernels table{gemv, nullptr, nullptr, unpack<float>, unpack<BFloat16>};
  return table;
}

template const Int8Kernels& int8_table<FIT_ISA, std::int8_t>();

}  // namespace fit::kernels
