#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "support/callable.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

// Memory for kernels under test.
namespace fit::test {

/// Sizes below one vector, of one vector, and of several vectors with a remainder.
constexpr std::int64_t odd_sizes[] = {0, 1, 3, 7, 16, 33, 257};

/// n elements that start `offset` elements after a 64-byte boundary, between guard elements. A kernel must not write
/// the guards or use them in results. All bytes start as 255, which is NaN in floating types. Under the address
/// sanitizer, reading a guard is an error, too.
template <class T>
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::int64_t n, std::int64_t offset = 1) : n_(n) {
    constexpr std::int64_t line = 64;
    bytes_.assign(static_cast<std::size_t>(4 * line + (n + offset) * element), 255);
    const auto at = reinterpret_cast<std::uintptr_t>(bytes_.data() + line);
    begin_ = static_cast<std::int64_t>(line + (line - at % line) % line) + offset * element;
    fence(true);
  }
  ~GuardedBuffer() { fence(false); }
  GuardedBuffer(GuardedBuffer&&) = default;
  GuardedBuffer& operator=(GuardedBuffer&&) = delete;
  T* data() { return reinterpret_cast<T*>(bytes_.data() + begin_); }
  std::int64_t size() const { return n_; }
  T& operator[](std::int64_t i) { return data()[i]; }
  std::vector<T> values() { return std::vector<T>(data(), data() + n_); }
  /// Whether the bytes around the elements are unchanged.
  bool guards_intact() const {
    const auto untouched = [&](auto from, auto to) {
      return std::all_of(bytes_.begin() + from, bytes_.begin() + to, [](unsigned char b) { return b == 255; });
    };
    fence(false);
    const bool all = untouched(0, begin_) && untouched(begin_ + n_ * element, static_cast<std::int64_t>(bytes_.size()));
    fence(true);
    return all;
  }
  /// Whether element i is unchanged.
  bool untouched(std::int64_t i) const {
    const unsigned char* const p = bytes_.data() + begin_ + i * element;
    return std::all_of(p, p + element, [](unsigned char b) { return b == 255; });
  }

 private:
  static constexpr auto element = static_cast<std::int64_t>(sizeof(T));
  void fence([[maybe_unused]] bool up) const {
#if defined(__SANITIZE_ADDRESS__)
    if (bytes_.empty()) return;  // moved away
    const auto change = up ? __asan_poison_memory_region : __asan_unpoison_memory_region;
    const std::int64_t end = begin_ + n_ * element;
    change(bytes_.data(), static_cast<std::size_t>(begin_));
    change(bytes_.data() + end, bytes_.size() - static_cast<std::size_t>(end));
#endif
  }
  std::int64_t n_, begin_;
  std::vector<unsigned char> bytes_;
};

/// A random distribution.
using Draw = Callable<double(std::mt19937_64&)>;

inline Draw between(double low, double high) {
  return [=](std::mt19937_64& random) { return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53; };
}

/// Draws one of the values with probability 1 / one_in, otherwise from the other distribution.
inline Draw sometimes(std::vector<double> values, const Draw& otherwise, unsigned one_in = 8) {
  return [=](std::mt19937_64& random) {
    return random() % one_in == 0 ? values[random() % values.size()] : otherwise(random);
  };
}

/// Any number of type T, of every magnitude, also infinite, NaN, denormal and zero.
template <class T>
Draw anything() {
  return [usual = between(-2, 2), wide = between(-110, 110)](std::mt19937_64& random) -> double {
    using Limits = std::numeric_limits<T>;
    const T special[] = {
        0,  -T(0),         Limits::infinity(), -Limits::infinity(),  Limits::quiet_NaN(), 1,
        -1, Limits::min(), -Limits::min(),     Limits::denorm_min(), Limits::max(),       Limits::lowest()};
    switch (random() % 4) {
      case 0:
        return special[random() % std::size(special)];
      case 1: {
        const std::uint64_t bits = random();
        T x;
        std::memcpy(&x, &bits, sizeof x);
        return x;
      }
      case 2:
        return wide(random);
      default:
        return usual(random);
    }
  };
}

template <class T>
GuardedBuffer<T> drawn(std::int64_t n, std::int64_t offset, const Draw& draw, std::mt19937_64& random) {
  GuardedBuffer<T> room(n, offset);
  for (std::int64_t i = 0; i < n; ++i) room[i] = static_cast<T>(draw(random));
  return room;
}

}  // namespace fit::test
