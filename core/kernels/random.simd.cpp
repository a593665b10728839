#include "kernels/random.hpp"

#include <cstring>

#include "kernels/simd/simd.hpp"

namespace fit::kernels {
namespace {

using Words = Vec<std::uint64_t>;  // each lane has a word of one block in its low half; the high half is not used
constexpr std::int64_t group = random_group, blocks = group / 4;

// Products of the low halves.
inline Words multiply(const Words& a, const Words& b) {
#if defined(__AVX512F__)
  return Words(_mm512_mul_epu32(a, b));
#elif defined(__AVX2__)
  return Words(_mm256_mul_epu32(a, b));
#elif defined(__SSE2__)
  return Words(_mm_mul_epu32(a, b));
#else
  return (a & Words(0xFFFFFFFFu)) * (b & Words(0xFFFFFFFFu));
#endif
}

// The 64 words of group g.
void group_words(std::uint32_t* out, RandomKey key, std::int64_t g) {
  constexpr std::int64_t W = Words::size, N = blocks / W;
  Words c0[N], c1[N], c2[N], c3[N];
  for (std::int64_t j = 0; j < N; ++j) {
    alignas(64) std::uint64_t index[W];
    for (std::int64_t l = 0; l < W; ++l) index[l] = static_cast<std::uint64_t>(g * blocks + j * W + l);
    c0[j] = Words::load_aligned(index);
    c1[j] = c0[j] >> 32;
    c2[j] = Words(key.call);
    c3[j] = c2[j] >> 32;
  }
  std::uint32_t k0 = static_cast<std::uint32_t>(key.seed), k1 = static_cast<std::uint32_t>(key.seed >> 32);
  const Words m0(0xD2511F53u), m1(0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    const Words w0(k0), w1(k1);
    for (std::int64_t j = 0; j < N; ++j) {
      const Words p0 = multiply(m0, c0[j]), p1 = multiply(m1, c2[j]);
      c0[j] = (p1 >> 32) ^ c1[j] ^ w0;
      c1[j] = p1;
      c2[j] = (p0 >> 32) ^ c3[j] ^ w1;
      c3[j] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const Words low(0xFFFFFFFFu);
  auto* pairs = reinterpret_cast<std::uint64_t*>(out);
  for (std::int64_t j = 0; j < N; ++j) {
    ((c0[j] & low) | (c1[j] << 32)).store_unaligned(pairs + j * W);
    ((c2[j] & low) | (c3[j] << 32)).store_unaligned(pairs + blocks + j * W);
  }
}

// 64 uniform numbers: from 24 bits of a word for float, 53 bits of two words for double.
void group_uniform(float* u, RandomKey key, std::int64_t g) {
  alignas(64) std::uint32_t word[group];
  group_words(word, key, g);
  for (std::int64_t i = 0; i < group; ++i)
    u[i] = static_cast<float>(static_cast<std::int32_t>(word[i] >> 8)) * 0x1p-24f;
}
void group_uniform(double* u, RandomKey key, std::int64_t g) {
  alignas(64) std::uint64_t pair[group];
  group_words(reinterpret_cast<std::uint32_t*>(pair), key, 2 * g);
  group_words(reinterpret_cast<std::uint32_t*>(pair + group / 2), key, 2 * g + 1);
  for (std::int64_t i = 0; i < group; ++i)
    u[i] = static_cast<double>(static_cast<std::int64_t>(pair[i] >> 11)) * 0x1p-53;
}

// Box and Muller: elements i and i + 32 share a radius, sqrt(-2 ln(1 - u)), and an angle.
template <class T>
void group_normal(T* z, RandomKey key, std::int64_t g) {
  using V = Vec<T>;
  constexpr T turn = static_cast<T>(6.283185307179586476925);
  alignas(64) T u[group];
  group_uniform(u, key, g);
  for (std::int64_t i = 0; i < group / 2; i += V::size) {
    const V radius = xsimd::sqrt(V(T(-2)) * xsimd::log(V(T(1)) - V::load_aligned(u + i)));
    const auto [sine, cosine] = xsimd::sincos(V(turn) * V::load_aligned(u + group / 2 + i));
    (radius * cosine).store_unaligned(z + i);
    (radius * sine).store_unaligned(z + group / 2 + i);
  }
}

// Fills out[0 … n) with the elements from `first`; make(pointer to 64 elements, group) computes one group.
template <class T, class Make>
void by_groups(T* out, std::int64_t first, std::int64_t n, const Make& make) {
  for (std::int64_t i = first; i < first + n;) {
    const std::int64_t g = i / group, begin = i % group, left = first + n - i;
    const std::int64_t count = left < group - begin ? left : group - begin;
    if (count == group) {
      make(out + (i - first), g);
    } else {
      alignas(64) T part[group];
      make(part, g);
      std::memcpy(out + (i - first), part + begin, static_cast<std::size_t>(count) * sizeof(T));
    }
    i += count;
  }
}

template <class T>
void words(std::uint32_t* out, RandomKey key, std::int64_t first, std::int64_t n) {
  by_groups(out, first, n, [key](std::uint32_t* p, std::int64_t g) { group_words(p, key, g); });
}

template <class T>
void uniform(T* out, RandomKey key, std::int64_t first, std::int64_t n) {
  by_groups(out, first, n, [key](T* p, std::int64_t g) { group_uniform(p, key, g); });
}

template <class T>
void normal(T* out, RandomKey key, std::int64_t first, std::int64_t n) {
  by_groups(out, first, n, [key](T* p, std::int64_t g) { group_normal(p, key, g); });
}

template <class T>
void dropout(T* y, const T* x, const Dropout& d, std::int64_t first, std::int64_t n) {
  const std::uint32_t limit = d.limit;
  const T kept = static_cast<T>(d.kept);
  for (std::int64_t i = 0; i < n; i += group) {
    alignas(64) std::uint32_t word[group];
    group_words(word, d.key, (first + i) / group);
    const std::int64_t count = n - i < group ? n - i : group;
    for (std::int64_t j = 0; j < count; ++j) y[i + j] = word[j] <= limit ? T(0) : x[i + j] * kept;
  }
}

}  // namespace

template <class IsaTag, class T>
const Random<T>& random_table() {
  static constexpr Random<T> table{words<T>, uniform<T>, normal<T>, dropout<T>};
  return table;
}

template const Random<float>& random_table<FIT_ISA, float>();
template const Random<double>& random_table<FIT_ISA, double>();

}  // namespace fit::kernels
