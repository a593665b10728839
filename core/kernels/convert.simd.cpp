#include "kernels/convert.hpp"

#include <limits>
#include <type_traits>

#include "kernels/simd/for_each_vector.hpp"

namespace fit::kernels {
namespace {

// Elements as numbers that the compiler has vectors of: a BFloat16 as its bits, a bool as its byte.
template <class T>
struct Stored {
  typedef T Number;
};
template <>
struct Stored<bool> {
  typedef unsigned char Number;
};
template <>
struct Stored<BFloat16> {
  typedef std::uint16_t Number __attribute__((may_alias));
};

template <class To, class From>
To bits_as(From v) {
  return __builtin_bit_cast(To, v);
}

// The bits of BFloat16(x). The last bit of float is set where x is not exact in it, so x is rounded once
// (detail::odd_float).
std::uint16_t bf16_bits(float f) {
  const auto b = bits_as<std::uint32_t>(f);
  const bool nan = (b & 0x7fffffffu) > 0x7f800000u;
  return static_cast<std::uint16_t>((nan ? b | 0x400000u : b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}
std::uint16_t bf16_bits(double x) {
  const auto f = static_cast<float>(x);
  const auto back = static_cast<double>(f);
  const auto sizes = [](double v) { return bits_as<std::uint64_t>(v) & ~(std::uint64_t{1} << 63); };
  const auto exact = static_cast<std::uint32_t>(sizes(back) == sizes(x) || x != x);
  const auto above = static_cast<std::uint32_t>(sizes(back) > sizes(x));
  const auto b = bits_as<std::uint32_t>(f), odd = (b - above) | 1u;
  return bf16_bits(bits_as<float>(exact ? b : odd));
}
// detail::odd_double
std::uint16_t bf16_bits(std::int64_t n) {
  constexpr std::int64_t limit = std::int64_t{1} << 53;
  const bool exact = -limit <= n && n <= limit;
  const std::int64_t odd = n >> 10 | std::int64_t{(n & 1023) != 0};
  return bf16_bits(static_cast<double>(exact ? n : odd) * (exact ? 1.0 : 1024.0));
}

// Without a branch; the cast is defined for every x.
template <class From>
std::int64_t integer_of(From x) {
  using Limits = std::numeric_limits<std::int64_t>;
  constexpr From end = 0x1p63;
  const auto inside = static_cast<std::int64_t>(x >= -end && x < end ? x : From(0));
  return x >= end ? Limits::max() : x < -end ? Limits::min() : inside;
}

template <class To, class From>
auto converted(typename Stored<From>::Number v) {
  if constexpr (std::is_same_v<From, BFloat16>) {
    return converted<To, float>(bits_as<float>(static_cast<std::uint32_t>(v) << 16));
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<unsigned char>(v != 0);
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return bf16_bits(static_cast<std::conditional_t<std::is_same_v<From, bool>, float, From>>(v));
  } else if constexpr (std::is_same_v<To, std::int64_t> && std::is_floating_point_v<From>) {
    return integer_of(v);
  } else {
    return static_cast<To>(v);
  }
}

template <class To, class From>
void run(To* y, const From* x, std::int64_t n) {
  using V = Vec<float>;
  if constexpr ((std::is_same_v<To, BFloat16> && std::is_same_v<From, float>) ||
                (std::is_same_v<To, float> && std::is_same_v<From, BFloat16>)) {
    for_each_vector<V>(
        n, [&](std::int64_t i, auto access) { access.store(access.template load<V>(x + i, From(0)), y + i); });
  } else {
    auto* __restrict to = reinterpret_cast<typename Stored<To>::Number*>(y);
    const auto* __restrict from = reinterpret_cast<const typename Stored<From>::Number*>(x);
    for (std::int64_t i = 0; i < n; ++i) to[i] = converted<To, From>(from[i]);
  }
}

}  // namespace

template <class IsaTag, class To, class From>
Conversion<To, From> conversion() {
  return run<To, From>;
}

#define FIT_TO(To, From) template Conversion<To, From> conversion<FIT_ISA, To, From>();
#define FIT_TO_EACH_OTHER(A, B) FIT_TO(A, B) FIT_TO(B, A)
FIT_TO_EACH_OTHER(float, BFloat16)
FIT_TO_EACH_OTHER(float, double)
FIT_TO_EACH_OTHER(float, std::int64_t)
FIT_TO_EACH_OTHER(float, bool)
FIT_TO_EACH_OTHER(double, BFloat16)
FIT_TO_EACH_OTHER(double, std::int64_t)
FIT_TO_EACH_OTHER(double, bool)
FIT_TO_EACH_OTHER(BFloat16, std::int64_t)
FIT_TO_EACH_OTHER(BFloat16, bool)
FIT_TO_EACH_OTHER(std::int64_t, bool)
#undef FIT_TO_EACH_OTHER
#undef FIT_TO

}  // namespace fit::kernels
